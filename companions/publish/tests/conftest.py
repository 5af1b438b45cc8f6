"""What tests of pages share with those of pipelines."""

from tests.pipelines.conftest import town as town
