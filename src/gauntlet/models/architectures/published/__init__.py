"""Networks of the papers, as published: their structure, the names in their authors' files, what they were made for.

One module per family, each with its parts and a table of its variants; `catalogue` has all tables.
"""
