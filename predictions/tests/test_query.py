"""The one parser of queries, and the query string that it reads back."""

from __future__ import annotations

from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarking.batch_sizes import format_batch_sizes
from benchmarking.specs import Optimizer
from predictions.query import (
    MAX_BATCH_SIZE,
    PRECISIONS,
    PRICE_KINDS,
    Choices,
    ForecastQuery,
    QueryError,
    parse_query,
)

CHOICES = Choices(
    image_sizes={
        "resnet50": (224,),
        "resnet18": (224,),
        "inception_v3": (224, 299),
        "tiny": (96,),
    },
    machines=("reference-cpu", "aws-g4dn.xlarge", "aws-p3.2xlarge"),
    devices=("t4", "v100-sxm2-16gb"),
    regions=("us-east-1", "eastus"),
)
MINIMAL = {"architecture": ["resnet50"], "machine": ["reference-cpu"]}


def refused(**parameters: list[str]) -> dict[str, str]:
    with pytest.raises(QueryError) as caught:
        parse_query(MINIMAL | parameters, CHOICES)
    return caught.value.errors


class TestDefaults:
    def test_a_minimal_query_has_the_defaults_of_the_design(self):
        query = parse_query(MINIMAL, CHOICES)
        assert query == ForecastQuery(
            architectures=("resnet50",),
            machines=("reference-cpu",),
            devices=(),
            batch_sizes=None,
            examples=1_281_167,
            epochs=1,
            precision="default",
            image_size=None,
            price="on-demand",
            region="us-east-1",
            optimizer=Optimizer.SGD,
            loader_images_per_second=None,
            max_usd=None,
            max_hours=None,
            max_memory_gib=None,
        )

    def test_defaults_are_left_out_of_the_query_string(self):
        query = parse_query(
            MINIMAL | {"epochs": ["1"], "examples": ["1,281,167"], "price": ["on-demand"]}, CHOICES
        )
        assert query.to_query_string() == "architecture=resnet50&machine=reference-cpu"

    def test_inception_is_asked_at_299_px_and_others_at_224(self):
        query = parse_query(MINIMAL, CHOICES)
        assert query.image_size_of("inception_v3", (224, 299)) == 299
        assert query.image_size_of("resnet50", (224,)) == 224
        assert query.image_size_of("tiny", (96,)) == 96

    def test_empty_texts_count_as_not_given(self):
        assert parse_query(MINIMAL | {"epochs": [""], "max_usd": ["  "]}, CHOICES) == parse_query(
            MINIMAL, CHOICES
        )

    def test_a_device_stands_in_for_a_machine(self):
        query = parse_query({"architecture": ["resnet50"], "device": ["t4"]}, CHOICES)
        assert (query.machines, query.devices) == ((), ("t4",))

    @pytest.mark.parametrize(
        ("parameters", "percent"),
        [
            ({}, 0.0),
            ({"price": ["spot"]}, 10.0),
            ({"price": ["spot"], "interruption_overhead": ["0"]}, 0.0),
            ({"interruption_overhead": ["2.5"]}, 2.5),
        ],
    )
    def test_interruptions_are_counted_on_spot_unless_told_otherwise(self, parameters, percent):
        query = parse_query(MINIMAL | parameters, CHOICES)
        assert query.interruption_percent == percent
        assert query.training().interruption_percent == percent
        assert query.to_json()["interruption_overhead"] == percent

    def test_the_json_form_holds_every_name_of_the_query_string(self):
        assert parse_query(MINIMAL | {"batch_sizes": ["8,1-2"]}, CHOICES).to_json() == {
            "architecture": ["resnet50"],
            "machine": ["reference-cpu"],
            "device": [],
            "batch_sizes": [1, 2, 8],
            "examples": 1_281_167,
            "epochs": 1,
            "precision": "default",
            "image_size": None,
            "price": "on-demand",
            "region": "us-east-1",
            "optimizer": "sgd",
            "loader_images_per_second": None,
            "interruption_overhead": 0.0,
            "start_minutes": 0.0,
            "storage_gib": 0.0,
            "storage_usd_per_gib_month": 0.08,
            "max_usd": None,
            "max_hours": None,
            "max_memory_gib": None,
        }

    def test_a_strangers_parameter_is_passed_over(self):
        assert parse_query(MINIMAL | {"utm_source": ["x"]}, CHOICES) == parse_query(
            MINIMAL, CHOICES
        )


class TestReading:
    @pytest.mark.parametrize(
        ("text", "sizes"),
        [
            ("1-4", (1, 2, 3, 4)),
            ("8,16,32", (8, 16, 32)),
            ("32, 8,8 ,1-2", (1, 2, 8, 32)),
            ("4096", (4096,)),
        ],
    )
    def test_batch_sizes(self, text, sizes):
        assert parse_query(MINIMAL | {"batch_sizes": [text]}, CHOICES).batch_sizes == sizes

    def test_repeated_batch_sizes_join(self):
        query = parse_query(MINIMAL | {"batch_sizes": ["4", "1-2"]}, CHOICES)
        assert query.batch_sizes == (1, 2, 4)

    @pytest.mark.parametrize("text", ["1281167", "1,281,167", "1_281_167", "1 281 167"])
    def test_thousands_may_be_grouped(self, text):
        assert parse_query(MINIMAL | {"examples": [text]}, CHOICES).examples == 1_281_167

    def test_repeated_names_count_once_and_keep_their_order(self):
        query = parse_query(
            {"architecture": ["resnet50", "resnet18", "resnet50"], "machine": ["reference-cpu"]},
            CHOICES,
        )
        assert query.architectures == ("resnet50", "resnet18")


class TestRefusing:
    def test_an_unknown_cnn_is_told_what_was_meant(self):
        assert refused(architecture=["resnet5O"]) == {
            "architecture": "Unknown CNN 'resnet5O'. Did you mean resnet50 or resnet18?"
        }

    def test_an_unknown_machine_without_a_like_is_told_what_there_is(self):
        assert refused(machine=["zzz"]) == {
            "machine": "Unknown machine 'zzz'. "
            "Known: aws-g4dn.xlarge, aws-p3.2xlarge, reference-cpu."
        }

    def test_an_unknown_device(self):
        assert refused(device=["v100"])["device"].startswith("Unknown device 'v100'.")

    def test_an_unknown_precision(self):
        assert refused(precision=["fp23"]) == {
            "precision": "Unknown precision 'fp23': it is one of default, fp32, tf32, amp. "
            "Did you mean fp32?"
        }

    @pytest.mark.parametrize("text", ["0", "-3", "8--4", "a", "1.5", "1-10000000", "4097", "1-"])
    def test_impossible_batch_sizes(self, text):
        assert refused(batch_sizes=[text]) == {
            "batch_sizes": "Batch sizes are whole numbers from 1 to 4096, as in 1-64 or 8,16,32 "
            f"(got '{text}')."
        }

    def test_a_range_backwards(self):
        assert refused(batch_sizes=["8-4"]) == {
            "batch_sizes": "Batch sizes are whole numbers from 1 to 4096, as in 1-64 or 8,16,32: "
            "a range goes from small to large (4-8, not 8-4)."
        }

    def test_too_many_batch_sizes(self):
        assert refused(batch_sizes=["1-4096"]) == {
            "batch_sizes": "At most 512 batch sizes at a time (got 4096)."
        }

    @pytest.mark.parametrize(
        "text", ["0", "-1", "1.5", "many", "1e6", "99999999999", "1" * 30, "1,2", "nan", "٣"]
    )
    def test_absurd_examples(self, text):
        assert refused(examples=[text]) == {
            "examples": f"Examples must be a whole number from 1 to 10,000,000,000 (got '{text}')."
        }

    @pytest.mark.parametrize("text", ["0", "-1", "100001", "ten"])
    def test_absurd_epochs(self, text):
        assert refused(epochs=[text]) == {
            "epochs": f"Epochs must be a whole number from 1 to 100,000 (got '{text}')."
        }

    @pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1e99", "1e-99", "0.0009", "fast"])
    def test_absurd_pipeline_rates(self, text):
        assert refused(loader_images_per_second=[text]) == {
            "loader_images_per_second": "The input pipeline's rate must be a number of images per "
            f"second from 0.001 to 10,000,000 (got '{text}')."
        }

    @pytest.mark.parametrize(
        ("name", "sentence"),
        [
            ("interruption_overhead", "The overhead of interruptions must be a number of percent"),
            ("start_minutes", "The time to start must be a number of minutes"),
            ("storage_gib", "Storage must be a number of GiB"),
            (
                "storage_usd_per_gib_month",
                "The price of storage must be a number of US dollars per GiB-month",
            ),
        ],
    )
    @pytest.mark.parametrize("text", ["-1", "nan", "inf", "1e99", "much", "1e", "10 %", "9" * 400])
    def test_absurd_extras(self, name, sentence, text):
        (said,) = refused(**{name: [text]}).values()
        assert said.startswith(f"{sentence} from 0 to ")
        assert len(said) < 250

    @pytest.mark.parametrize("name", ["max_usd", "max_hours", "max_memory_gib"])
    def test_limits_must_be_positive(self, name):
        assert "above 0" in refused(**{name: ["0"]})[name]

    def test_an_image_size_that_no_cnn_of_the_query_has(self):
        assert refused(image_size=["300"]) == {
            "image_size": "No layers are known at 300 px. Known: resnet50 at 224 px."
        }

    def test_an_image_size_that_one_cnn_has_is_no_error(self):
        query = parse_query(
            {"architecture": ["resnet50", "inception_v3"], "machine": ["reference-cpu"],
             "image_size": ["299"]},
            CHOICES,
        )  # fmt: skip
        assert query.image_size == 299

    def test_an_unknown_region(self):
        assert refused(region=["us-east1"]) == {
            "region": "No price is known for region 'us-east1'. Did you mean us-east-1?"
        }

    def test_an_unknown_price_kind_and_optimizer(self):
        errors = refused(price=["spott"], optimizer=["adam"])
        assert errors == {
            "price": "Unknown price kind 'spott': it is one of on-demand, spot. Did you mean spot?",
            "optimizer": "Unknown optimizer 'adam': it is one of sgd, adamw. Did you mean adamw?",
        }

    def test_a_missing_cnn_and_a_missing_machine(self):
        with pytest.raises(QueryError) as caught:
            parse_query({}, CHOICES)
        assert caught.value.errors == {
            "architecture": "Choose at least one CNN, for example resnet50.",
            "machine": "Choose at least one machine (or a device), for example reference-cpu.",
        }

    def test_two_different_values_of_a_single_option(self):
        assert refused(epochs=["1", "2"]) == {
            "epochs": "Give epochs once (got 2 different values)."
        }

    def test_a_mistyped_option_name(self):
        assert refused(exmaples=["5"]) == {
            "exmaples": "'exmaples' is not an option. Did you mean examples?"
        }

    def test_thousands_of_repeats(self):
        assert refused(machine=["reference-cpu"] * 5000) == {
            "architecture": "A query may hold at most 400 values."
        }

    def test_more_rows_than_a_page_can_hold(self):
        many = Choices(
            image_sizes={f"net{n}": (224,) for n in range(60)},
            machines=tuple(f"m{n}" for n in range(60)),
            devices=(),
            regions=(),
        )
        with pytest.raises(QueryError) as caught:
            parse_query(
                {"architecture": list(many.image_sizes), "machine": list(many.machines)}, many
            )
        assert caught.value.errors == {
            "batch_sizes": "60 CNNs x 60 machines x 17 batch sizes are 61,200 rows; at most "
            "10,000 fit in one query. Ask for fewer of them."
        }

    def test_control_characters_do_not_reach_the_sentence(self):
        assert refused(architecture=["a\x1b[31m\n"])["architecture"].startswith(
            "Unknown CNN 'a?[31m'."
        )

    def test_every_wrong_field_has_its_own_sentence(self):
        errors = refused(epochs=["0"], batch_sizes=["0"], architecture=["x"])
        assert set(errors) == {"epochs", "batch_sizes", "architecture"}

    def test_nothing_loaded_yet(self):
        nothing = Choices(image_sizes={}, machines=(), devices=(), regions=())
        with pytest.raises(QueryError) as caught:
            parse_query(MINIMAL, nothing)
        assert caught.value.errors["architecture"] == (
            "No CNN is loaded yet: run script/setup first."
        )


def subsets(names):
    return st.lists(st.sampled_from(names), min_size=1, unique=True).map(tuple)


def amounts(most):
    return st.floats(0, most).map(lambda amount: round(amount, 9))


queries = st.builds(
    ForecastQuery,
    architectures=subsets(("resnet50", "resnet18", "inception_v3")),
    machines=subsets(CHOICES.machines),
    devices=st.one_of(st.just(()), subsets(CHOICES.devices)),
    batch_sizes=st.one_of(
        st.none(),
        st.sets(st.integers(1, MAX_BATCH_SIZE), min_size=1, max_size=40).map(
            lambda sizes: tuple(sorted(sizes))
        ),
    ),
    examples=st.integers(1, 10_000_000_000),
    epochs=st.integers(1, 100_000),
    precision=st.sampled_from(PRECISIONS),
    image_size=st.sampled_from([None, 224]),
    price=st.sampled_from(PRICE_KINDS),
    region=st.sampled_from(CHOICES.regions),
    optimizer=st.sampled_from(Optimizer),
    loader_images_per_second=st.one_of(st.none(), st.integers(1, 10**6).map(float)),
    interruption_overhead=st.one_of(st.none(), amounts(1000)),
    start_minutes=amounts(1440),
    storage_gib=amounts(1e6),
    storage_usd_per_gib_month=amounts(1000),
    max_usd=st.one_of(st.none(), st.decimals(1, 10**6, places=2).map(float)),
    max_hours=st.one_of(st.none(), st.floats(0.001, 1e6).map(lambda x: round(x, 6))),
    max_memory_gib=st.one_of(st.none(), st.integers(1, 1000).map(float)),
)


@given(queries)
def test_state_to_url_to_state(query):
    """U1: any view is a URL."""
    assert parse_query(parse_qs(query.to_query_string()), CHOICES) == query


@given(st.sets(st.integers(1, 200), min_size=1))
def test_batch_sizes_survive_their_compact_text(sizes):
    text = format_batch_sizes(sorted(sizes))
    assert parse_query(MINIMAL | {"batch_sizes": [text]}, CHOICES).batch_sizes == tuple(
        sorted(sizes)
    )


NAMES = ["examples", "epochs", "batch_sizes", "max_usd", "region", "machine", "architecture"]


@given(st.dictionaries(st.sampled_from(NAMES), st.lists(st.text())))
def test_no_text_breaks_the_parser(parameters):
    try:
        parse_query(parameters, CHOICES)
    except QueryError as error:
        assert all(sentence.endswith((".", "?")) for sentence in error.errors.values())
