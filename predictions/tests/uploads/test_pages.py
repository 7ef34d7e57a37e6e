"""The pages of own networks, and that nobody else ever sees one."""

from __future__ import annotations

import html
import logging
import re

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.test import Client

from benchmarking.tests.factories import create_layer_timing, create_run
from predictions.models import MeasurementRequest, OwnNetwork
from predictions.tests.uploads.conftest import onnx_file
from predictions.uploads import views
from predictions.uploads.services import UploadBusyError
from predictions.uploads.throttling import UploadThrottle

PAGE = "/architectures/own/"


def text_of(response) -> str:
    """What a person reads, tags taken out."""
    plain = re.sub(r"<[^>]*>", " ", response.content.decode())
    return " ".join(html.unescape(plain).split())


@pytest.fixture
def network(upload) -> OwnNetwork:
    return upload()


class TestUploading:
    def test_the_form_explains_both_ways(self, catalogue, client):
        response = client.get(PAGE)
        assert response.status_code == 200
        shown = text_of(response)
        assert "python -m benchmarking.tracing my_network.py:make_network" in shown
        assert (
            "torch.onnx.export(model.train(), images, 'net.onnx', dynamo=True, optimize=False)"
            in shown
        )

    def test_a_file_leads_to_its_private_page(self, catalogue, client):
        response = client.post(PAGE, {"file": onnx_file()})
        network = OwnNetwork.objects.get()
        assert (response.status_code, response["Location"]) == (302, f"/own/{network.token}/")

    def test_both_pages_link_here(self, catalogue, client):
        for path in ("/architectures/", "/"):
            assert 'href="/architectures/own/"' in client.get(path).content.decode()

    @pytest.mark.parametrize(
        ("data", "sentence"),
        [
            ({}, "Choose a file: an .onnx file, or the JSON that the tracer writes."),
            ({"file": SimpleUploadedFile("x.onnx", b"")}, "The file is empty."),
            ({"file": "text"}, "Choose a file: an .onnx file, or the JSON that the tracer writes."),
            (
                {"file": onnx_file(), "image_size": "-1"},
                "The image size must be a whole number from 1 to 4,096 pixels.",
            ),
            (
                {"file": onnx_file(), "image_size": "48"},
                "The graph is made for images of 32 pixels, not 48; export it with a symbolic "
                "height and width to choose.",
            ),
        ],
    )
    def test_what_is_wrong_stands_beside_its_field(self, catalogue, client, data, sentence):
        response = client.post(PAGE, data)
        assert response.status_code == 400
        name = "image_size" if "image_size" in data else "file"
        found = re.search(rf'id="{name}-error">([^<]*)</span>', response.content.decode())
        assert html.unescape(found[1]) == sentence
        assert OwnNetwork.objects.count() == 0

    def test_a_huge_request_is_refused_before_it_is_read(self, catalogue):
        client = Client(enforce_csrf_checks=True)
        response = client.post(PAGE, {"file": onnx_file()}, CONTENT_LENGTH=str(2**40))
        assert response.status_code == 413
        assert "at most 64 MB are allowed" in text_of(response)

    def test_a_forged_request_is_refused(self, catalogue):
        response = Client(enforce_csrf_checks=True).post(PAGE, {"file": onnx_file()})
        assert response.status_code == 403
        assert OwnNetwork.objects.count() == 0

    def test_an_address_that_sends_too_much_has_to_wait(self, catalogue, client, monkeypatch):
        monkeypatch.setattr(UploadThrottle, "rate", "1/hour")
        assert client.post(PAGE, {"file": onnx_file()}).status_code == 302
        # A header that anybody can write does not make another sender.
        response = client.post(PAGE, {"file": onnx_file()}, headers={"X-Forwarded-For": "9.9.9.9"})
        assert response.status_code == 429
        assert int(response["Retry-After"]) > 3500
        assert "Too many files came from your address: try again in 60 minutes." in text_of(
            response
        )
        other = client.post(PAGE, {"file": onnx_file()}, REMOTE_ADDR="10.9.8.7")
        assert other.status_code == 302

    def test_a_busy_reader_is_no_error_of_the_file(self, catalogue, client, monkeypatch):
        def busy(*_args, **_options):
            raise UploadBusyError

        monkeypatch.setattr(views, "upload_network", busy)
        response = client.post(PAGE, {"file": onnx_file()})
        assert (response.status_code, response["Retry-After"]) == (429, "5")


class TestPrivatePage:
    def test_it_shows_what_the_file_holds_and_forecasts_it(self, network, client):
        response = client.get(f"/own/{network.token}/")
        shown = text_of(response)
        assert "Fastest" in shown and "Cheapest" in shown
        architecture = network.architecture
        assert f"Parameters {architecture.parameters:,}" in shown
        assert f"per example: {architecture.multiply_adds:,} multiply-adds" in shown
        assert "3 x 32 x 32 8 3 x 3 2 x 2 1 x 1 1 x 1 1 1" in shown
        assert response["X-Robots-Tag"] == "noindex, nofollow"
        assert "no-store" in response["Cache-Control"]

    def test_it_says_how_many_layers_are_missing(self, network, catalogue, client):
        create_layer_timing(
            run=create_run(machine=catalogue["reference-cpu"]),
            layer=network.architecture.uses.get().layer,
        )
        content = client.get(f"/own/{network.token}/").content.decode()
        cells = dict(re.findall(r'<td data-label="([^"]*)">([^<]*)</td>', content))
        assert cells == {
            "Layers measured": "1",
            "Missing": "0",
            "Share of the convolution work": "100 %",
        }
        asked = re.findall(r'<option value="([^"]*)">', content)
        assert asked == ["aws-g4dn.xlarge", "aws-p4d.24xlarge", "azure-undated", "gcp-unpriced"]

    def test_a_wish_to_measure_starts_nothing_and_stays_in_the_admin(
        self, network, catalogue, client, admin_client
    ):
        response = client.post(f"/own/{network.token}/measure/", {"machine": "aws-g4dn.xlarge"})
        assert response["Location"] == f"/own/{network.token}/"
        wish = MeasurementRequest.objects.get()
        assert (wish.own_network, wish.machine.slug, wish.missing_layers) == (
            network,
            "aws-g4dn.xlarge",
            1,
        )
        shown = text_of(client.get(f"/own/{network.token}/"))
        assert "Asked for: aws-g4dn.xlarge." in shown
        listed = admin_client.get("/admin/predictions/measurementrequest/").content.decode()
        assert network.architecture.slug in listed
        unknown = client.post(f"/own/{network.token}/measure/", {"machine": "no\0where"})
        assert unknown.status_code == 404

    def test_it_is_kept(self, network, client):
        client.post(f"/own/{network.token}/keep/")
        assert "It is kept until you delete it." in text_of(client.get(f"/own/{network.token}/"))

    def test_it_is_deleted(self, network, client):
        response = client.post(f"/own/{network.token}/delete/")
        assert response["Location"] == f"{PAGE}?deleted"
        assert "The network is deleted" in text_of(client.get(response["Location"]))
        assert client.get(f"/own/{network.token}/").status_code == 404

    @pytest.mark.parametrize("action", ["keep", "delete", "measure"])
    def test_looking_changes_nothing(self, network, client, action):
        assert client.get(f"/own/{network.token}/{action}/").status_code == 405
        assert OwnNetwork.objects.get() == network

    @pytest.mark.parametrize("token", ["x" * 22, "short", "x" * 500])
    def test_a_foreign_link_is_a_page_with_a_sentence(self, network, client, token):
        for action, method in (("", client.get), ("keep/", client.post), ("delete/", client.post)):
            response = method(f"/own/{token}/{action}")
            assert response.status_code == 404
            assert "No such private network" in text_of(response)
            assert "its 30 days are over" in text_of(response)


class TestAnyViewIsAUrl:
    @pytest.fixture
    def query(self, network) -> str:
        return (
            f"architecture={network.architecture.slug}&architecture=resnet50"
            "&machine=aws-g4dn.xlarge&epochs=9&batch_sizes=1-4"
        )

    def test_page_csv_json_api_and_command_give_the_same_rows(self, network, query, client, capsys):
        page = client.get(f"/?{query}")
        assert page.status_code == 200
        rows = client.get(f"/forecast.json?{query}").json()["rows"]
        own = [row for row in rows if row["architecture"] == network.architecture.slug]
        assert [row["batch_size"] for row in own] == [1, 2, 3, 4]
        assert {row["image_size"] for row in own} == {32}
        assert all(row["iteration_ms"] and row["measured_share"] == 0.0 for row in own)
        assert client.get(f"/api/v1/predictions/?{query}").json()["rows"] == rows
        advice = client.get(f"/api/v1/advice/?{query}").json()
        assert advice["answers"][0]["architecture"] == network.architecture.slug
        lines = client.get(f"/forecast.csv?{query}").content.decode().splitlines()
        call_command(
            "predict",
            network.architecture.slug,
            "resnet50",
            *("--machine", "aws-g4dn.xlarge", "--epochs", "9", "--batch-sizes", "1-4"),
            *("--format", "csv"),
        )
        assert capsys.readouterr().out.splitlines() == lines

    def test_the_page_names_its_private_page_and_its_title_no_secret(self, network, query, client):
        content = client.get(f"/?{query}").content.decode()
        title = re.search(r"<title>(.*?)</title>", content)[1]
        assert title == "your own network, resnet50: time and cost of training - Epochcast"
        assert f'<a href="/own/{network.token}/">' in content

    def test_its_image_size_may_be_named(self, network, query, client):
        rows = client.get(f"/forecast.json?{query}&image_size=32").json()["rows"]
        assert {row["image_size"] for row in rows} == {32}
        refused = client.get(f"/?{query}&image_size=33")
        assert refused.status_code == 400
        assert "33" in refused.context["errors"]["image_size"]


class TestNobodyElseSeesIt:
    @pytest.mark.parametrize(
        "path",
        [
            "/",
            "/?architecture=resnet50&machine=aws-g4dn.xlarge",
            "/architectures/",
            "/architectures/?q=own",
            "/machines/",
            "/forecast.csv?architecture=resnet50&machine=aws-g4dn.xlarge",
            "/api/v1/architectures/",
            "/api/v1/architectures/?family=own",
            "/api/v1/predictions/?architecture=own&machine=aws-g4dn.xlarge",
        ],
    )
    def test_lists_and_other_forecasts(self, network, client, path):
        response = client.get(path)
        assert network.token not in response.content.decode()
        assert "my net" not in response.content.decode()

    def test_its_public_address_does_not_exist(self, network, client):
        slug = network.architecture.slug
        assert client.get(f"/architectures/{slug}/32/").status_code == 404
        response = client.get(f"/api/v1/architectures/?slug={slug}")
        assert response.status_code == 400
        # As for a name that nobody ever had.
        nobodys = client.get("/api/v1/architectures/?slug=own-0123456789abcdef")
        assert response.json()["detail"].replace(slug, "") == nobodys.json()["detail"].replace(
            "own-0123456789abcdef", ""
        )

    def test_a_near_miss_is_not_told_how_near_it_was(self, network, client):
        almost = network.architecture.slug[:-1]
        response = client.get(f"/forecast.json?architecture={almost}&machine=aws-g4dn.xlarge")
        assert response.status_code == 400
        assert response.json()["detail"] == (
            f"There is no private network '{almost}': the link may be mistyped or deleted, or its "
            "30 days are over."
        )

    def test_benchmarks_of_everything_leave_it_out_unless_named(self, network):
        from benchmarking.jobs.selection import SelectionError, select_architectures

        slug = network.architecture.slug
        assert slug not in {one.slug for one in select_architectures()}
        assert select_architectures([slug]) == [network.architecture]
        with pytest.raises(SelectionError) as caught:
            select_architectures([slug[:-1]])
        assert slug not in str(caught.value).replace(repr(slug[:-1]), "")

    def test_logs_hide_it(self, network, client, caplog):
        with caplog.at_level(logging.DEBUG):
            client.get(f"/own/{network.token}/")
            client.get(f"/api/v1/uploads/{network.token}/")
            client.post(f"/own/{network.token}/")
        shown = [f"{one.getMessage()} {vars(one).get('path')}" for one in caplog.records]
        assert [line for line in shown if network.token in line] == []
        assert len([line for line in shown if line.startswith("GET /own/.../ 200")]) == 1
        assert "Method Not Allowed (POST): /own/.../ None" in shown


def test_u4_what_measuring_takes_stands_beside_each_machine_that_can_be_asked_for(upload, client):
    text = client.get(f"/own/{upload().token}/").content.decode()
    options = re.findall(r'<option value="([^"]+)">([^<]+)</option>', text)
    said = dict(options)["aws-g4dn.xlarge"]
    assert re.fullmatch(r"aws-g4dn.xlarge, NVIDIA T4: about \d+ min and \$0\.\d\d", said)
