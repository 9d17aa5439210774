"""`python -m tests.support.fake_data_look IDLE_S`: a look without a tokenizer, which does what the first path says.

`dies` ends it in the middle of its answer, `hangs` gives none; anything else is one row, whose format is the number of
looks that this process has done; after `last` it ends.
"""

import os
import sys
import time

from horizon_app.contracts.data_view import DataPreview, LookAsked


def answer(number: int) -> DataPreview:
    return DataPreview(
        format=str(number), files=[], rows=1, used=None, skipped=None, dropped=None, bad_rows=0, num_sequences=None,
        num_tokens=None, num_trained_tokens=None, fingerprint=None, complete=True, samples=[], errors=[], num_errors=0,
        warnings=[],
    )  # fmt: skip


def main() -> None:
    for number, line in enumerate(sys.stdin.buffer, start=1):
        asked = LookAsked.model_validate_json(line)
        if asked.paths[0].name == "dies":
            sys.stderr.write("no memory left\n")
            sys.stderr.flush()
            os.write(1, b'{"format": ')
            os._exit(9)
        if asked.paths[0].name == "hangs":
            time.sleep(60)
        os.write(1, answer(number).model_dump_json().encode() + b"\n")
        if asked.paths[0].name == "last":
            return


if __name__ == "__main__":
    main()
