"""`port.translation.again`, which tests import that earlier versions have written."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from port.translation import again
from port.translation.verify import reverify


def test_the_old_name_warns_and_does_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    proved = Mock()
    monkeypatch.setattr(reverify, "prove_files", proved)
    with pytest.warns(DeprecationWarning, match="is now port.translation.verify.reverify"):
        assert again.prove_files("net.py", None, ()) is proved.return_value
    proved.assert_called_once_with("net.py", None, ())
