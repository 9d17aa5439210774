"""`python -m tests.support.serve_home`: the server alone, without the command line; prints its address."""

from horizon_app.api.serving import serve
from horizon_app.settings import AppSettings

if __name__ == "__main__":
    serve(AppSettings(), on_ready=lambda address: print(address, flush=True))
