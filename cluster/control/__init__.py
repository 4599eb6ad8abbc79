"""The control API: commands to a running cluster over HTTP.

`server` moves bytes, `app` admits and dispatches requests, `endpoints` is the table of requests. The
OpenAPI document is made from that table. Loaded only by `rmqlab up --control`.
"""
