"""DNNMark, which times single cuDNN operations: its configuration files, its logs, its runs.

``config``, ``log``, ``tree``, ``execution``, ``environment`` and ``runner`` go to the measured
machine as one file (``program``): Python 3.8 and its standard library have to be enough for them.
"""
