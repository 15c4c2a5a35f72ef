//! The commands that ask a daemon, as the built binary, with prepared responses.

use std::fs::File;
use std::io::Read as _;

use nix::pty::openpty;
use serde_json::{Value, json};

use crate::support::canned::{Canned, HEAD, Play, answer, endless, flood, raw, slow};
use crate::support::pipe::pipe;
use crate::support::process::{Process, Ran};

/// Runs a command with this daemon, which has no argument with a blank.
fn ask(daemon: &Canned, line: &str) -> Ran {
    let words: Vec<&str> = line.split(' ').collect();
    Process::ask(&daemon.socket(), &words)
}

/// Runs a command, whose requests get these answers, and returns the requests and the output.
#[track_caller]
fn done(line: &str, plays: Vec<Play>) -> (Vec<String>, String) {
    let daemon = Canned::start(plays);
    let ran = ask(&daemon, line);
    assert_eq!((ran.code, &*ran.err), (Some(0), ""), "{line}");
    (daemon.requests(), ran.out)
}

/// Does the same with a command that prints JSON, which is returned.
#[track_caller]
fn json_of(line: &str, plays: Vec<Play>) -> Value {
    let (_, printed) = done(line, plays);
    serde_json::from_str(&printed).unwrap()
}

/// Checks the exit code of a command and its only line about the error.
#[track_caller]
fn assert_fails(daemon: &Canned, line: &str, code: i32, words: &str) {
    let ran = ask(daemon, line);
    ran.assert_fails(code, words);
    let is_one_line = ran.err.starts_with("plugind: ") && ran.err.lines().count() == 1;
    assert!(is_one_line, "{line}: {ran:?}");
}

fn record(name: &str, state: &str) -> Value {
    json!({
        "type": "CSIPlugin", "name": name, "state": state, "socket": format!("/r/{name}"),
        "endpoint": "/p", "since": "never", "generation": 3, "attempts": 1,
    })
}

fn list(items: &[Value]) -> String {
    let list = json!({"kind": "PluginList", "instance": "9f", "generation": 3, "items": items});
    format!("{list}\n")
}

const NO_DEVICES: &str = "{\"kind\":\"DeviceList\",\"items\":[]}";

fn event(event: &str, record: &Value) -> String {
    format!(
        "{}\n",
        json!({"event": event, "generation": 4, "record": record})
    )
}

const BOOKMARK: &str = "{\"event\":\"BOOKMARK\",\"generation\":4}\n";

const EXPIRED: &str = "{\"event\":\"EXPIRED\"}\n";

const AN_EVENT: &str = "{\"type\":\"Normal\",\"reason\":\"Registered\",\"socket\":\"/r/a\",\
    \"plugin\":{\"type\":\"CSIPlugin\",\"name\":\"a\"},\"message\":\"registered\",\"count\":1}\n";

#[test]
fn a_list_is_the_same_however_its_bytes_arrive() {
    let body = list(&[record("b", "Registered"), record("a", "Backoff")]);
    let expected = "TYPE       NAME  STATE       REASON  AGE        ENDPOINT\n\
                    CSIPlugin  a     Backoff     <none>  <unknown>  /p\n\
                    CSIPlugin  b     Registered  <none>  <unknown>  /p\n";
    for play in [answer(200, &body), slow(&body)] {
        let (requests, shown) = done("list", vec![play]);
        assert_eq!(shown, expected);
        assert_eq!(requests, ["GET /v1/plugins HTTP/1.0"]);
    }
    let older = raw("HTTP/1.0 200 OK\r\n\r\n".to_owned() + &body);
    let shown = json_of("list -ojson", vec![older]);
    let sorted = [record("a", "Backoff"), record("b", "Registered")];
    assert_eq!(shown["items"], json!(sorted));
    assert_eq!(shown["generation"], 3);
}

#[test]
fn a_request_is_http_1_0_and_the_last_of_its_connection() {
    let daemon = Canned::start([answer(200, "{\"retried\":2}")]);
    let ran = Process::ask(&daemon.socket(), &["retry", "CSIPlugin/a b"]);
    assert_eq!(ran.out, "retried:  2\n");
    let expected = "POST /v1/retry?type=CSIPlugin&name=a%20b HTTP/1.0\r\nHost: localhost\r\n\
                    Content-Length: 0\r\n\r\n";
    assert_eq!(daemon.request(), expected);
}

#[test]
fn each_command_shows_its_answer() {
    let a = list(&[record("a", "Registered")]);
    let plays = vec![answer(200, &a), answer(200, &a), slow(AN_EVENT)];
    let (requests, shown) = done("describe CSIPlugin/a", plays);
    let asked = ["plugins?type=CSIPlugin", "plugins/CSIPlugin/a", "events"];
    assert_eq!(requests, asked.map(|it| format!("GET /v1/{it} HTTP/1.0")));
    assert!(shown.starts_with("Name:        a\n"), "{shown}");
    let last = "  Normal  Registered  <unknown>  registered\n";
    assert!(shown.ends_with(last), "{shown}");

    // The plugin has gone before its process was asked for.
    let plays = vec![answer(200, &a), answer(404, "{}"), answer(200, AN_EVENT)];
    let shown = json_of("describe /r/a -o json", plays);
    assert_eq!(shown["items"][0]["name"], "a");
    assert_eq!(shown["events"][0]["reason"], "Registered");

    let (_, shown) = done("events --no-headers", vec![slow(AN_EVENT)]);
    let only = "<unknown>  Normal  Registered  CSIPlugin/a  registered\n";
    assert_eq!(shown, only);

    let shown = json_of("events -ojson", vec![answer(200, AN_EVENT)]);
    assert_eq!(shown["items"][0]["plugin"]["name"], "a");
    let (_, shown) = done("events -ojsonl", vec![answer(200, AN_EVENT)]);
    assert_eq!(shown.lines().count(), 1);
    let first = "{\"count\":1,";
    assert!(shown.starts_with(first), "keys are sorted: {shown}");

    let status = vec![answer(200, "{\"version\":\"0.1.0\",\"sockets\":0}")];
    let (requests, shown) = done("status", status);
    assert_eq!(requests, ["GET /v1/status HTTP/1.0"]);
    assert!(shown.starts_with("Version:       0.1.0\n"), "{shown}");
    let (_, shown) = done("status -ojson", vec![answer(200, "{\"pid\":1}")]);
    assert_eq!(shown, "{\n  \"pid\": 1\n}\n");

    let metrics = "# TYPE a gauge\na{b=\"é\"} 1\n";
    let (requests, shown) = done("metrics", vec![slow(metrics)]);
    assert_eq!(shown, metrics);
    assert_eq!(requests, ["GET /metrics HTTP/1.0"]);

    let rescanned = "{\"directories\":2,\"found\":1,\"lost\":0}";
    let numbers = "directories:  2\nfound:        1\nlost:         0\n";
    let (debug, initial) = ("{\"filter\":\"debug\"}", "{\"filter\":\"\"}");
    let (retried, forgotten) = ("{\"retried\":1}", "{\"forgotten\":1}");
    let (forget, default) = ("forget?type=A&name=b", "filter:  default\n");
    for (line, path, body, expected) in [
        ("retry", "retry", retried, "retried:  1\n"),
        ("forget A/b", forget, forgotten, "forgotten:  1\n"),
        ("rescan", "rescan", rescanned, numbers),
        ("log debug", "log?filter=debug", debug, "filter:  debug\n"),
        ("log-level default", "log?filter=", initial, default),
    ] {
        let (requests, shown) = done(line, vec![answer(200, body)]);
        assert_eq!(shown, expected);
        assert_eq!(requests, [format!("POST /v1/{path} HTTP/1.0")]);
    }
}

#[test]
fn an_empty_list_is_not_a_failure() {
    for (line, body, remark) in [
        ("list", &*list(&[]), "No plugins.\n"),
        ("list CSIPlugin -oname", &list(&[]), "No plugins.\n"),
        ("devices", NO_DEVICES, "No devices.\n"),
        ("devices a/b -ojsonl", NO_DEVICES, "No devices.\n"),
        ("events", "", "No events.\n"),
        ("events CSIPlugin/b", AN_EVENT, "No events.\n"),
        ("events -ojsonl", "", "No events.\n"),
    ] {
        let ran = ask(&Canned::start([answer(200, body), answer(200, body)]), line);
        assert_eq!(ran.code, Some(0), "{line}");
        assert_eq!((&*ran.out, &*ran.err), ("", remark), "{line}");
    }
    let (_, shown) = done("list -ojson", vec![answer(200, &list(&[]))]);
    assert!(shown.contains("\"items\": []"), "{shown}");
}

#[test]
fn an_answer_that_is_wrong_or_breaks_off_is_status_1() {
    let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n";
    let short = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}";
    let refused = "{\"error\":\"only root may\\n do this\"}";
    let (ok, too_long) = ("HTTP/1.1 200 OK\r\n", "longer than 16 KiB");
    let (escape, escaped) = ("plain\u{1b}[2J\n", "returned 404: plain\\u{1b}[2J\n");
    let (number, shown) = ("{\"error\":7}", "returned 500: {\"error\":7}\n");
    for (play, words) in [
        (raw("SSH-2.0-OpenSSH_9.9\r\n"), "not HTTP"),
        (raw([0_u8, 0, 18, 4, 0, 0, 0, 0, 0]), "not HTTP"),
        (raw(""), "closed without a response"),
        (
            raw("HTTP/1.1 200 OK\r\nA:"),
            "closed before the response was complete",
        ),
        (raw(short), "closed before the response was complete"),
        (raw(chunks), "framing"),
        (flood(ok, "A: bcdefgh\r\n"), too_long),
        (flood("HTTP/1.1 200 OK\r\nA:", "bcdefgh"), too_long),
        (answer(200, "<html>"), "not JSON"),
        (answer(200, "[1]"), "an unexpected structure"),
        (answer(403, refused), "only root may\\n do this\n"),
        (answer(404, ""), "the daemon returned 404\n"),
        (answer(404, escape), escaped),
        (answer(500, number), shown),
        (answer(503, "{\"error\":\"too many\"}"), "too many\n"),
    ] {
        assert_fails(&Canned::start([play]), "list", 1, words);
    }
    for body in ["[1]", "{}"] {
        let daemon = Canned::start([answer(200, body)]);
        assert_fails(&daemon, "devices", 1, "an unexpected structure");
    }
    let problems = "{\"error\":\"/a.conf:1: unknown key x\\n/a.conf:2: a\\u001bb\"}";
    let ran = ask(&Canned::start([answer(422, problems)]), "reload");
    let shown = "plugind: /a.conf:1: unknown key x\n\
                 plugind: /a.conf:2: a\\u{1b}b\n";
    assert_eq!((ran.code, &*ran.err), (Some(78), shown));
    let bare = Canned::start([answer(422, "")]);
    assert_fails(&bare, "reload", 78, "the daemon returned 422\n");
    let older = Canned::start([answer(404, "{\"error\":\"no such path\"}")]);
    assert_fails(&older, "devices", 1, "plugind: no such path\n");
    let line = flood("HTTP/1.1 200 OK\r\n\r\n", "{{{{{{{{{{{{{{{{{{{{{{");
    assert_fails(&Canned::start([line]), "watch", 1, "too long");
    let expired = Canned::start([answer(200, EXPIRED), answer(200, EXPIRED)]);
    assert_fails(&expired, "watch", 1, "nothing but EXPIRED");
}

#[test]
fn without_a_daemon_the_status_is_3() {
    let closed = Canned::start([]);
    let missing = Canned::missing();
    let lines = "list, devices, describe A/b, watch, events, status, metrics, retry, forget A/b, \
                 rescan, log info";
    for line in lines.split(", ") {
        assert_fails(&missing, line, 3, "does not exist; start plugind run");
    }
    // The thread of this socket ends at once, and closes it.
    let refused = || ask(&closed, "list").code;
    assert!((0..1000).map(|_| refused()).any(|code| code == Some(3)));
    for line in ["watch", "events -w"] {
        let ended = Canned::start([slow("")]);
        assert_eq!(ask(&ended, line).code, Some(3), "{line}");
    }
}

#[test]
fn a_followed_daemon_that_is_killed_is_status_3() {
    for body in ["", "{", BOOKMARK] {
        for command in ["watch", "list -w", "events -w"] {
            let killed = Canned::start([raw(format!("{HEAD}{body}"))]);
            assert_fails(&killed, command, 3, "plugind: the daemon has stopped\n");
        }
    }
}

#[test]
fn a_plugin_that_does_not_exist_is_status_4() {
    let none = || answer(404, "{\"error\":\"no such plugin\"}");
    let all = || answer(200, &list(&[record("a", "Backoff")]));
    let resource = answer(404, "{\"error\":\"no such resource\"}");
    let conflict = answer(409, "{\"error\":\"it is not down\"}");
    let plugin = "CSIPlugin/a does not exist\n";
    let other = "CSIPlugin/b does not exist\n";
    let no_resource = "plugind: no such resource\n";
    let not_down = "plugind: CSIPlugin/a: it is not down";
    let elsewhere = "not in state Registered\n";
    for (line, play, code, words) in [
        ("retry CSIPlugin/a", none(), 4, plugin),
        ("retry /r/b", none(), 4, "/r/b does not exist\n"),
        ("forget CSIPlugin/a", none(), 4, plugin),
        ("forget CSIPlugin/a", conflict, 1, not_down),
        ("devices a/b", resource, 4, no_resource),
        ("list CSIPlugin/b", all(), 4, other),
        ("list CSIPlugin/b --state=Backoff", all(), 4, other),
        ("list CSIPlugin/a --state Registered", all(), 5, elsewhere),
        ("describe CSIPlugin/b", all(), 4, other),
        ("describe /r/b", all(), 4, "/r/b does not exist\n"),
    ] {
        assert_fails(&Canned::start([play]), line, code, words);
    }
    let (_, shown) = done("list CSIPlugin/a -oname", vec![all()]);
    assert_eq!(shown, "CSIPlugin/a\n");
}

#[test]
fn an_option_names_the_socket_before_the_environment() {
    let daemon = Canned::start([answer(200, "{\"pid\":1}")]);
    let socket = daemon.socket();
    let line = format!("status -ojson --socket {}", socket.display());
    assert_eq!(ask(&Canned::missing(), &line).code, Some(0));
}

#[test]
fn the_variable_that_programs_get_is_not_read() {
    let daemon = Canned::start([answer(200, "{\"pid\":1}")]);
    let mut command = Process::command();
    command.args(["status", "-ojson"]);
    command.env("PLUGIND_SOCKET", Canned::missing().socket());
    command.env("PLUGIND_API_SOCKET", daemon.socket());
    assert_eq!(command.status().unwrap().code(), Some(0));
}

/// Returns what a daemon sends about its only plugin, which then has this state.
fn listed(state: &str) -> String {
    event("ADDED", &record("a", state)) + BOOKMARK
}

/// Returns what a daemon sends about a plugin that is registered a little later.
fn registered_later() -> Play {
    let before = event("ADDED", &record("b", "Registered")) + &listed("Connecting");
    let later =
        event("MODIFIED", &record("b", "Down")) + &event("MODIFIED", &record("a", "Registered"));
    endless(&(before + &later))
}

#[test]
fn waiting_ends_when_the_plugin_is_what_is_waited_for() {
    let gone = event("DELETED", &json!({"socket": "/r/a"}));
    for (state, play) in [
        ("registered", endless(&listed("Registered"))),
        ("registered", registered_later()),
        ("deregistered", endless(BOOKMARK)),
        ("deregistered", endless(&(listed("Registered") + &gone))),
    ] {
        let line = format!("wait --for={state} CSIPlugin/a");
        let (requests, shown) = done(&line, vec![play]);
        assert_eq!(shown, format!("CSIPlugin/a {state}\n"));
        assert_eq!(requests, ["GET /v1/watch HTTP/1.0"]);
    }
}

#[test]
fn waiting_continues_over_expired_watches_busy_daemons() {
    let line = "wait --for=registered CSIPlugin/a";
    let plays = vec![
        slow(&(listed("Connecting") + EXPIRED)),
        answer(503, "{\"error\":\"too many clients\"}"),
        raw(""),
        slow(&listed("Connecting")),
        raw("HTTP/1.1 200 OK\r\nContent-"),
        raw(format!("{HEAD}{{")),
        registered_later(),
    ];
    let (requests, shown) = done(line, plays);
    assert_eq!(shown, "CSIPlugin/a registered\n");
    assert_eq!(requests, ["GET /v1/watch HTTP/1.0"; 7]);
}

#[test]
fn a_daemon_that_starts_later_is_waited_for() {
    let mut daemon = Canned::missing();
    let mut command = Process::asking(&daemon.socket(), &["wait", "--for=ready"]);
    let process = Process::printing(&mut command);
    daemon.appear([answer(503, "not yet\n"), answer(200, "ok\n")]);
    process.until_line("plugind ready");
    assert!(process.end().0.success());
    assert_eq!(daemon.requests(), ["GET /readyz HTTP/1.0"; 2]);
}

#[test]
fn when_the_time_is_up_the_status_is_124() {
    let registered = "wait --for=registered CSIPlugin/a --timeout=0s";
    let later = "wait --for=registered CSIPlugin/a --timeout=300ms";
    let ready = "wait --for=ready --timeout=50ms";
    let fails = |plays: Option<Play>, line, words| {
        let daemon = plays.map_or_else(Canned::missing, |play| Canned::start([play]));
        assert_fails(&daemon, line, 124, words);
    };
    fails(None, registered, "not registered within 0s: no daemon at /");
    fails(None, ready, "not ready within 50ms: no daemon at /");
    let mut stuck = record("a", "Backoff");
    stuck["lastError"] = "GetInfo\nfailed".into();
    let before = event("ADDED", &stuck) + BOOKMARK;
    for line in [registered, later] {
        let words = "CSIPlugin/a is in state Backoff: GetInfo\\nfailed\n";
        fails(Some(endless(&before)), line, words);
    }
    let words = "within 0s: CSIPlugin/a does not exist\n";
    fails(Some(endless(BOOKMARK)), registered, words);
    let daemon = Canned::start([answer(403, "{\"error\":\"no\"}")]);
    assert_fails(&daemon, registered, 1, "plugind: no\n");
}

#[test]
fn changes_are_shown_as_they_arrive_until_the_output_is_closed() {
    let before = event("ADDED", &record("a", "Registered")) + BOOKMARK;
    for line in ["watch", "list -w", "events -w"] {
        let body = if line.starts_with("events") {
            AN_EVENT
        } else {
            &before
        };
        let daemon = Canned::start([endless(body)]);
        let (reader, writer) = pipe();
        let words: Vec<&str> = line.split(' ').collect();
        let mut command = Process::asking(&daemon.socket(), &words);
        let process = Process::logging(command.stdout(writer));
        drop(command);
        let mut shown = String::new();
        let mut byte = [0];
        while !shown.contains("CSIPlugin") {
            assert_eq!((&reader).read(&mut byte).unwrap(), 1, "{line:?}: {shown}");
            shown.push(byte[0].into());
        }
        drop(reader);
        assert_eq!(process.lines.iter().next(), None, "{line:?}");
        assert_eq!(process.end().0.code(), Some(0), "{line:?}");
    }
}

#[test]
fn a_closed_output_is_not_a_failure_and_a_full_one_is() {
    let list = || answer(200, &list(&[record("a", "Registered")]));
    let daemon = Canned::start([list(), list()]);
    for line in ["list", "config"] {
        let run =
            |output: File| Process::run(Process::asking(&daemon.socket(), &[line]).stdout(output));
        let (reader, writer) = pipe();
        drop(reader);
        let ran = run(writer);
        assert_eq!((ran.code, &*ran.err), (Some(0), ""));
        let ran = run(File::options().write(true).open("/dev/full").unwrap());
        ran.assert_fails(1, "plugind: cannot write to standard output: No space left");
    }
}

#[test]
fn a_terminal_gets_colours() {
    for (variable, is_coloured) in [
        (None, true),
        (Some(("NO_COLOR", "")), true),
        (Some(("NO_COLOR", "1")), false),
        (Some(("TERM", "dumb")), false),
    ] {
        let daemon = Canned::start([answer(200, &list(&[record("a\u{1b}", "Registered")]))]);
        let terminal = openpty(None, None).unwrap();
        let mut command = Process::asking(&daemon.socket(), &["list", "--no-headers"]);
        command.env_remove("NO_COLOR").env("TERM", "xterm");
        command.envs(variable).stdout(terminal.slave);
        let status = command.status().unwrap();
        drop(command);
        let mut shown = Vec::new();
        // Reading from a terminal that has no other end fails when all was read.
        let _ = File::from(terminal.master).read_to_end(&mut shown);
        let shown = String::from_utf8(shown).unwrap();
        assert_eq!(status.code(), Some(0));
        let coloured = "CSIPlugin  a\\u{1b}  \x1b[32mRegistered\x1b[0m  <none>  <unknown>  /p\r\n";
        let plain = coloured.replace("\x1b[32m", "").replace("\x1b[0m", "");
        let expected = if is_coloured { coloured } else { &plain };
        assert_eq!(shown, expected, "{variable:?}");
    }
}
