"""Labels and annotations."""

import pytest
import yaml

from apf_middleware.config import load_text
from apf_middleware.config.emit import Target, emit
from tests.support.labelled_documents import LABELLED


@pytest.mark.parametrize("target", ["apf", "v1"])
def test_labels_and_annotations_are_kept(target: Target) -> None:
    configuration = load_text(LABELLED)
    documents = {
        (one["kind"], one["metadata"]["name"]): one["metadata"]
        for one in yaml.safe_load_all(emit(configuration, target))
    }

    level = documents["PriorityLevel" if target == "apf" else "PriorityLevelConfiguration", "reports"]
    assert level["labels"] == {"app.kubernetes.io/part-of": "shop", "number": "1"}
    assert level["annotations"] == {"include.release.openshift.io/ibm-cloud-managed": "true"}
    assert documents["FlowSchema", "reports"]["annotations"] == {"kustomize.toolkit.fluxcd.io/prune": "disabled"}
    assert target == "v1" or documents["Server", "server"]["labels"] == {"team": "platform"}
    again = load_text(emit(configuration, target)).metadata
    assert {key: again[key] for key in again if key[0] != "server"} == {
        key: found for key, found in configuration.metadata.items() if key[0] != "server"
    }
