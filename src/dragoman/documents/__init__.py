"""Documents in, documents of the same format out: text, subtitles, translation memories, Word, HTML.

`passages` knows sentences, lines, and formatting in them; `subtitles`, `memory`, `word`
and `hypertext` take a file apart and put it together again, and `files` is what chooses among them.
"""

from dragoman.documents.files import FORMATS, DocumentFile, translate_document, translate_file
from dragoman.documents.passages import Document, segments

__all__ = ["FORMATS", "Document", "DocumentFile", "segments", "translate_document", "translate_file"]
