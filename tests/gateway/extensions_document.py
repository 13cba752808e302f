"""The matrix of extensions in docs/extensions.md, written from the table below: each line names its test.

python -m tests.gateway.extensions_document      writes the page
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).parents[2] / "docs" / "extensions.md"
BEGIN, END = "<!-- matrix: begin -->\n", "<!-- matrix: end -->\n"


class Row(NamedTuple):
    extension: str
    what: str
    clients: str
    servers: str
    test: str
    """module:function"""


E, T = "tests.gateway.test_extensions", "tests.gateway.test_tasks"
ROWS: Sequence[Row] = (
    Row("any", "declared by a client, told to servers", "modern", "modern",
        f"{E}:test_what_a_client_declares_reaches_a_modern_server_with_that_request_alone"),
    Row("any", "declared by a client, told to servers", "legacy", "modern",
        f"{E}:test_what_a_legacy_client_declared_for_its_session_reaches_a_modern_server"),
    Row("any", "declared by servers, told to clients", "both", "both",
        f"{E}:test_the_union_of_the_servers_extensions_and_ours_is_told"),
    Row("any", "methods", "modern", "both", f"{E}:test_a_method_of_an_unknown_extension_goes_to_the_server_it_names"),
    Row("any", "fields of results, content, tools, `_meta`", "modern", "both",
        "tests.gateway.test_unknown_fields:test_unknown_fields_of_results_content_definitions_and_meta_pass"),
    Row("ui", "tools with an interface beside the menu", "modern", "both",
        f"{E}:test_tools_with_an_interface_are_listed_beside_the_menu_to_hosts_alone"),
    Row("ui", "addresses in lists, reads, links, results", "modern", "both",
        f"{E}:test_an_interface_is_read_and_linked_under_the_address_of_its_server"),
    Row("ui", "tools for apps only", "modern", "modern",
        f"{E}:test_a_tool_for_apps_only_is_hidden_from_models_and_callable_by_hosts"),
    Row("ui", "an app's calls", "modern", "modern", f"{E}:test_an_app_reaches_its_own_server_and_no_other"),
    Row("ui", "two published app servers", "modern", "legacy",
        "tests.real.test_apps:test_a_host_sees_both_interfaces_reads_them_and_calls_their_tools"),
    Row("tasks", "create, poll", "modern", "modern with tasks",
        f"{T}:test_a_task_found_and_called_through_the_menu_is_followed_to_its_end"),
    Row("tasks", "input, cancel", "modern", "modern with tasks",
        f"{T}:test_input_reaches_a_servers_task_and_cancelling_ends_it"),
    Row("tasks", "a client without waits", "modern", "modern with tasks",
        f"{T}:test_a_client_without_tasks_waits_and_gets_a_plain_answer"),
    Row("tasks", "after a restart of Wicket", "modern", "modern with tasks",
        f"{T}:test_a_servers_task_survives_a_restart_of_ours"),
    Row("tasks", "ids are the principal's alone", "modern", "both", f"{T}:test_an_id_is_its_principals_alone"),
    Row("tasks", "a slow call becomes one; cancel", "modern", "legacy without tasks",
        f"{T}:test_a_slow_call_of_a_server_without_tasks_becomes_one"),
    Row("tasks", "input", "modern", "legacy without tasks",
        f"{T}:test_what_such_a_task_asks_is_answered_by_updating_it"),
    Row("tasks", "tools that are tasks only", "modern", "legacy with tasks",
        f"{T}:test_a_legacy_servers_task_is_waited_for_and_its_question_asked"),
    Row("tasks", "`task` on a call, result, list", "legacy", "all four kinds",
        f"{T}:test_a_legacy_client_calls_any_tool_as_a_task"),
    Row("tasks", "cancel", "legacy", "legacy without tasks", f"{T}:test_a_legacy_client_cancels_its_task"),
    Row("tasks", "listening by taskIds", "modern", "both", f"{T}:test_who_listens_hears_of_every_change"),
    Row("tasks", "`run_script`", "modern", "Wicket", f"{T}:test_a_script_can_be_a_task"),
    Row("tasks", "the conformance suite's ten scenarios", "modern", "modern with tasks",
        "tests.conformance.test_tasks_scenarios:"
        "test_wicket_passes_the_scenarios_of_tasks_as_the_server_behind_it_does"),
    Row("skills", "list, get, read, directory, digests", "modern", "both",
        f"{E}:test_skills_of_all_servers_are_listed_read_and_found"),
    Row("skills", "found by `find_tools`", "modern", "modern", f"{E}:test_a_search_names_the_skill_and_how_to_read_it"),
    Row("groups", "servers and tags", "modern", "modern",
        f"{E}:test_servers_and_tags_are_groups_with_typed_tools"),
    Row("tool-resolution", "`call_tool`, `run_script`", "modern", "modern",
        f"{E}:test_a_call_is_resolved_to_the_annotations_of_the_real_tool"),
    Row("server cards", "cards, catalogue", "any", "Wicket",
        "tests.gateway.test_cards:test_every_address_has_a_card_and_the_catalogue_leads_to_them"),
)  # fmt: skip


def matrix() -> str:
    head = "| extension | what | clients | servers | shown by |\n| --- | --- | --- | --- | --- |\n"
    return head + "".join(
        f"| {row.extension} | {row.what} | {row.clients} | {row.servers} | `{row.test.partition(':')[2]}` |\n"
        for row in ROWS
    )


def page(text: str) -> str:
    """`text` with the matrix of this table."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{matrix()}{END}{after}"


if __name__ == "__main__":
    FILE.write_text(page(FILE.read_text("utf-8")), "utf-8")
