"""Named data sets: what they are, where they are, and how they get here.

    folder/multi30k/train.en.gz …    plain files, the ones that recipes name
    folder/multi30k/SHA256SUMS       their sums, as `sha256sum -c` reads them
    folder/multi30k/source.json      where they came from, with licence and citation

A set is looked for where `find_file` looks: in the working directory, in $DRAGOMAN_DATA and in the cache.
"""

from dragoman.data.catalog.fetching import Progress, fetch
from dragoman.data.datasets import Dataset, get, locate, names, providing, whereabouts

__all__ = ["Dataset", "Progress", "fetch", "get", "locate", "names", "providing", "whereabouts"]
