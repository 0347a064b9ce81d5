"""A service over HTTP, and the page that it shows: trained runs for people and programs."""
