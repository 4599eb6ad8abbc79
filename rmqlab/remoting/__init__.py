"""The wire protocol: frames, header codecs, typed headers and bodies, messages.

Independent of the broker.
"""
