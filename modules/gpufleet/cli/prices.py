"""``gpufleet prices``: what machines cost where and how they are bought, and where these prices come from."""

from __future__ import annotations

from datetime import date, datetime
from itertools import islice
from pathlib import Path

import click

from gpufleet import paths
from gpufleet.boundary import make_printable, make_values_printable
from gpufleet.catalog.prices.row import PURCHASES
from gpufleet.catalog.prices.source_name import CLOUDS, SOURCE_NAMES
from gpufleet.cli import output, prices_aws
from gpufleet.cli.day import check_not_in_future
from gpufleet.cli.group import LazyGroup
from gpufleet.cli.number import FiniteFloatRange
from gpufleet.errors import CheckFailed, EnvironmentFault, InputError

DAY = click.DateTime(["%Y-%m-%d"])
FILE = click.argument("file", type=click.Path(path_type=Path))
ORIGIN = (
    click.option(
        "--format",
        "file_format",
        type=click.Choice(["auto", "skypilot", "gpuhunt", "plain"]),
        default="auto",
        show_default=True,
    ),
    click.option("--cloud", default="", help="The cloud of the prices, if the file does not contain it."),
    click.option("--as-of", type=DAY, help="The date of the prices, if the file does not contain it."),
    click.option("--source", default="", help="The source of the prices, if the file does not contain it."),
)


@click.group(cls=LazyGroup, invoke_without_command=True)
@click.option("--gpu", "--accelerator", "gpu", help="An accelerator, or parts of its name: h100, a100 80gb.")
@click.option(
    "--count",
    type=click.IntRange(1),
    help="Total number of accelerators: prices are for all machines that provide them.",
)
@click.option("--cloud", help="Only this cloud, such as aws.")
@click.option("--region")
@click.option("--machine", help="One machine type, also with Windows (m5.large:windows), or a part: ebs:gp3.")
@click.option("--vcpus", "min_vcpus", type=click.IntRange(1), help="Minimum number of vCPUs.")
@click.option("--memory", "min_memory_gib", type=FiniteFloatRange(0), help="Minimum memory in GiB.")
@click.option("--purchase", type=click.Choice(PURCHASES))
@click.option(
    "--max",
    "max_usd_per_hour",
    type=FiniteFloatRange(0),
    help="Maximum price in USD per hour.",
)
@click.option(
    "--by",
    "compare_by",
    type=click.Choice(["machine", "accelerator"]),
    help="Sort by price per machine or per accelerator.",
)
@click.option("--date", "price_date", type=DAY, help="Use the prices of that day.")
@click.option(
    "--limit",
    type=click.IntRange(0),
    default=20,
    show_default=True,
    help="Maximum number of rows; 0 shows all.",
)
@output.json_option
@click.pass_context
def prices_command(  # noqa: PLR0917 - click hands each option over by name
    ctx: click.Context,
    gpu: str | None,
    count: int | None,
    cloud: str | None,
    region: str | None,
    machine: str | None,
    min_vcpus: int | None,
    min_memory_gib: float | None,
    purchase: str | None,
    max_usd_per_hour: float | None,
    compare_by: str | None,
    price_date: datetime | None,
    limit: int,
    as_json: bool,
) -> None:
    """List machine prices, cheapest first, with date and source."""
    if ctx.invoked_subcommand:
        return
    from gpufleet.catalog.offer import check_accelerator_name, search_offers
    from gpufleet.catalog.prices import report

    _check_search(price_date, {"--gpu": gpu, "--cloud": cloud, "--region": region, "--machine": machine})
    if gpu:
        check_accelerator_name(gpu)
    offers = search_offers(
        cloud=cloud, region=region, machine=machine, purchase=purchase, accelerator=gpu, count=count,
        max_usd_per_hour=max_usd_per_hour,
        on_date=price_date.date() if price_date else None,
        compare_by="accelerator" if compare_by == "accelerator" or (gpu and not compare_by) else "machine",
        min_vcpus=min_vcpus, min_memory_gib=min_memory_gib,
        limit=limit + 1 if limit else None,
    )  # fmt: skip
    offer_dicts = report.offers_as_dicts(list(islice(offers, limit or None)), count, date.today())  # noqa: DTZ011 - a day
    more = next(iter(offers), None) is not None
    if (
        machine
        and not offer_dicts
        and _print_part_prices(machine, cloud, region, purchase, price_date, as_json=as_json)
    ):
        return
    if as_json:
        output.print_rendered(
            report.format_indented_json({"currency": "USD", "more": more, "offers": offer_dicts}),
            as_json=True,
        )
    elif offer_dicts:
        output.print_text_block(
            report.format_offers_table(make_values_printable(offer_dicts), count, more=more)
        )
    if not offer_dicts:
        from gpufleet.catalog.prices.name_suggestion import check_searched_names

        check_searched_names(cloud, region, machine)
        raise CheckFailed(
            "no machine with a price matches", hint="gpufleet prices status lists the stored prices"
        )


def _check_search(price_date: datetime | None, names: dict[str, str | None]) -> None:
    """Refuse a date in the future, and a name without a letter or digit, which would match everything or nothing."""
    if price_date:
        check_not_in_future(price_date.date(), "--date")
    for option, name in names.items():
        if name is not None and not any(letter.isalnum() for letter in name):
            raise InputError(f"{name!r} is not a name", where=option, remedy="leave the option out for all")


def _print_part_prices(
    name: str,
    cloud: str | None,
    region: str | None,
    purchase: str | None,
    price_date: datetime | None,
    *,
    as_json: bool,
) -> bool:
    """Print the prices of a part that was asked for as a machine (ebs:gp3); return True if there are any."""
    from gpufleet.catalog.prices import report
    from gpufleet.catalog.prices.part_offer import search_part_offers

    day = price_date.date() if price_date else None
    parts = report.part_offers_as_dicts(
        search_part_offers(name, cloud=cloud, region=region, purchase=purchase, on_date=day)
    )
    if parts:
        output.print_result(
            as_json, parts, lambda rows: {"currency": "USD", "parts": rows}, report.format_part_offers_table
        )
    return bool(parts)


@prices_command.command("status")
@output.json_option
def show_price_store_status(as_json: bool) -> None:
    """Show age, coverage and sources of the prices, and the excluded rows."""
    from gpufleet.catalog.prices import report
    from gpufleet.catalog.prices.status import read_price_store_status as look

    render = report.format_store_status_json if as_json else report.format_store_status
    output.print_rendered(render(make_values_printable(look()), date.today()), as_json=as_json)  # noqa: DTZ011 - a day


@prices_command.command("refresh")
@click.option("--cloud", type=click.Choice(CLOUDS), help="Only this cloud's sources.")
@click.option("--region", "regions", multiple=True, help="Only this region; may be given several times.")
@click.option(
    "--source",
    "source_names",
    multiple=True,
    type=click.Choice(SOURCE_NAMES),
    metavar="NAME",
    help="Only this source; may be given several times.",
)
@click.option(
    "--force", is_flag=True, help="Read sources again on the same day, and regions that no price names."
)
@click.option(
    "--accept", multiple=True, metavar="CODE", help="Import rows despite the finding with this code."
)
@output.json_option
def refresh_stored_prices(  # noqa: PLR0917 - click hands each option over by name
    cloud: str | None,
    regions: tuple[str, ...],
    source_names: tuple[str, ...],
    force: bool,
    accept: tuple[str, ...],
    as_json: bool,
) -> None:
    """Import today's prices from the clouds' APIs into the local store; an interrupted run can be repeated."""
    from datetime import UTC

    from gpufleet.catalog.prices import PriceStore, imports
    from gpufleet.catalog.prices import refresh as fresh
    from gpufleet.catalog.prices.refresh import report

    imports.check_finding_codes(accept)

    def report_progress(line: str) -> None:
        output.print_lines(line, err=True)

    scope = fresh.build_refresh_scope(datetime.now(UTC).date(), regions, cloud, allow_new_regions=force)
    sources = fresh.build_price_sources(source_names, cloud, scope, report_progress)
    with PriceStore(_find_price_store()) as store:
        outcomes = fresh.refresh_prices(
            store, sources, scope, force=force, accept=accept, report=report_progress
        )
    printed_outcomes = outcomes if as_json else make_values_printable(outcomes)
    output.print_rendered(
        (report.format_refresh_outcomes_json if as_json else report.format_refresh_outcomes)(
            printed_outcomes
        ),
        as_json=as_json,
    )
    fault = fresh.find_refresh_failure(outcomes, sources_named=bool(source_names))
    if fault:
        raise fault


@prices_command.command("import")
@FILE
@ORIGIN[0]
@ORIGIN[1]
@ORIGIN[2]
@ORIGIN[3]
@click.option(
    "--accept", multiple=True, metavar="CODE", help="Import rows despite the finding with this code."
)
@output.json_option
def import_price_file(  # noqa: PLR0917 - click hands each option over by name
    file: Path,
    file_format: str,
    cloud: str,
    as_of: datetime | None,
    source: str,
    accept: tuple[str, ...],
    as_json: bool,
) -> None:
    """Import a price file into the local store. Suspicious prices are set apart and not used.

    FILE is - for standard input. The exit code is 1 if all are set apart.
    """
    from gpufleet.catalog.prices import PriceStore, imports, report

    imports.check_finding_codes(accept)
    loaded = imports.load_price_file(
        file, file_format, imports.PriceOrigin(cloud, _format_day(as_of), source)
    )
    with PriceStore(_find_price_store()) as store:
        summary = imports.import_prices(store, loaded, accept)
    render = report.format_import_summary_json if as_json else report.format_import_summary
    printed_summary = summary if as_json else make_values_printable(summary)
    output.print_rendered(render(printed_summary, make_printable(loaded.name)), as_json=as_json)
    if summary.set_apart and not summary.imported:
        raise CheckFailed("no price of the file is in use; correct the file, or pass --accept CODE")


@prices_command.command("bundle")
@click.argument("file", type=click.Path(path_type=Path))
@output.json_option
def write_price_bundle(file: Path, as_json: bool) -> None:
    """Write the store's prices as one dated file for other sites, and print its SHA-256."""
    from dataclasses import asdict

    from gpufleet.catalog.prices import PriceStore
    from gpufleet.catalog.prices.bundle import write_bundle

    with PriceStore(_find_price_store(), create=False) as store:
        written = write_bundle(store, file)
    output.print_result(
        as_json,
        written,
        asdict,
        lambda each: (
            f"{make_printable(each.file)}: {each.prices} prices, the newest of {each.as_of}, {each.bytes} bytes\n"
            f"sha256 {each.sha256}"
        ),
    )


@prices_command.command("pull")
@click.argument("source", metavar="FILE_OR_URL")
@click.option("--sha256", required=True, metavar="HEX", help="The bundle's SHA-256, from whoever wrote it.")
@click.option("--allow-older", is_flag=True, help="Also a bundle that is older than the last one.")
@click.option(
    "--accept", multiple=True, metavar="CODE", help="Import rows despite the finding with this code."
)
@output.json_option
def pull_price_bundle(
    source: str, sha256: str, allow_older: bool, accept: tuple[str, ...], as_json: bool
) -> None:
    """Import a price bundle from a file or an https address, after its SHA-256 was checked."""
    from gpufleet.catalog.prices import PriceStore, bundle, imports, report

    imports.check_finding_codes(accept)
    content = bundle.fetch_bundle(source, sha256)
    with PriceStore(_find_price_store()) as store:
        manifest, summary = bundle.import_bundle(
            store, content, make_printable(source), accept, allow_older=allow_older
        )
    name = f"bundle of {manifest.as_of}"
    render = report.format_import_summary_json if as_json else report.format_import_summary
    output.print_rendered(
        render(summary if as_json else make_values_printable(summary), name), as_json=as_json
    )


@prices_command.command("check")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@ORIGIN[0]
@ORIGIN[1]
@ORIGIN[2]
@ORIGIN[3]
@output.json_option
def check_price_file(  # noqa: PLR0917 - click hands each option over by name
    file: Path | None, file_format: str, cloud: str, as_of: datetime | None, source: str, as_json: bool
) -> None:
    """Search for suspicious prices in a file, without importing it, or in all current prices."""
    from gpufleet.catalog.prices import audit, imports, report

    origin = imports.PriceOrigin(cloud, _format_day(as_of), source)
    findings = audit.check_price_file(file, file_format, origin) if file else audit.check_current_prices()
    if as_json:
        output.print_rendered(report.format_price_findings_json(findings), as_json=True)
    else:
        output.print_lines(*report.format_price_findings(findings) or ["nothing found"])
    if findings:
        raise CheckFailed(f"{len({finding.row for finding in findings})} suspicious prices")


def _format_day(moment: datetime | None) -> str:
    return moment.date().isoformat() if moment else ""


def _find_price_store() -> Path:
    path = paths.find_price_store_file()
    if path is None:
        raise EnvironmentFault(
            "the price store has no location: this is not a project, or GPUFLEET_PRICES is 'embedded'",
            hint="run inside a project, or set GPUFLEET_PRICES to a file",
        )
    return path


prices_command.add_command(prices_aws.search_capacity_blocks)
prices_command.add_command(prices_aws.summarise_spot_history)
