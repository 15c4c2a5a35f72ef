//! Tests of the routes: valid requests, and the reasons for which requests are refused.

use super::*;

fn request(method: Method, target: &str) -> Request {
    Request {
        method,
        target: target.to_owned(),
    }
}

fn call(method: Method, target: &str) -> Call {
    let call = route(&request(method, target));
    call.unwrap_or_else(|refused| panic!("{target}: {refused:?}"))
}

fn refusal(method: Method, target: &str) -> Response {
    let refusal = route(&request(method, target));
    refusal.expect_err(target)
}

fn plugins(kind: Option<&str>, name: Option<&str>, state: Option<State>) -> Call {
    Call::Plugins {
        kind: kind.map(str::to_owned),
        name: name.map(str::to_owned),
        state,
    }
}

#[test]
fn each_path_is_a_call() {
    let events = |since, follow| Call::Events { since, follow };
    let cases = [
        ("/v1/plugins", plugins(None, None, None)),
        ("/v1/plugins?", plugins(None, None, None)),
        (
            "/v1/plugins?state=Down&type=CSI%50lugin",
            plugins(Some("CSIPlugin"), None, Some(State::Down)),
        ),
        ("/v1/plugins/a/b", plugins(Some("a"), Some("b"), None)),
        (
            "/v1/plugins/DevicePlugin/example.com%2Fgpu+",
            plugins(Some("DevicePlugin"), Some("example.com/gpu+"), None),
        ),
        (
            "/v1/plugins/%C3%a4/b/c",
            plugins(Some("ä"), Some("b/c"), None),
        ),
        ("/v1/devices", Call::Devices { name: None }),
        (
            "/v1/devices?name=example.com%2fgpu",
            Call::Devices {
                name: Some("example.com/gpu".to_owned()),
            },
        ),
        ("/v1/status", Call::Status),
        ("/v1/events", events(None, false)),
        ("/v1/events?follow=1&since=7", events(Some(7), true)),
        ("/v1/events?since=0&&follow=0&", events(Some(0), false)),
        ("/v1/watch", Call::Watch { since: None }),
        (
            "/v1/watch?since=18446744073709551615",
            Call::Watch {
                since: Some(u64::MAX),
            },
        ),
        ("/metrics", Call::Metrics),
        ("/livez", Call::Live),
        ("/readyz", Call::Ready),
    ];
    for (target, wanted) in cases {
        for method in [Method::Get, Method::Head] {
            assert_eq!(call(method, target), wanted, "{target}");
        }
    }
}

#[test]
fn each_change_is_a_post() {
    let plugin = Selection::Plugin {
        kind: "a".to_owned(),
        name: "b&c".to_owned(),
    };
    let path = OsString::from_vec(b"/r/\xff +.sock".to_vec());
    let cases = [
        ("/v1/retry", Change::Retry(Selection::All)),
        ("/v1/retry?type=a&name=b%26c", Change::Retry(plugin)),
        (
            "/v1/retry?socket=/r/%ff%20+.sock",
            Change::Retry(Selection::Socket(path.into())),
        ),
        ("/v1/rescan", Change::Rescan),
        ("/v1/reload", Change::Reload),
        ("/v1/log?filter=a=b,c", Change::Log("a=b,c".to_owned())),
        ("/v1/log?filter=", Change::Log(String::new())),
        (
            "/v1/allocate?resource=a/b%3D2&device=c%26&device=d&wait=1500",
            Change::Allocate(Wish {
                resources: vec![("a/b".to_owned(), 2)],
                devices: vec!["c&".to_owned(), "d".to_owned()],
                wait: Some(Duration::from_millis(1500)),
            }),
        ),
        (
            "/v1/allocate?resource=a/b&resource=a/c=256",
            Change::Allocate(Wish {
                resources: vec![("a/b".to_owned(), 1), ("a/c".to_owned(), 256)],
                devices: Vec::new(),
                wait: None,
            }),
        ),
        (
            "/v1/forget?name=b&type=a",
            Change::Forget {
                kind: "a".to_owned(),
                name: "b".to_owned(),
            },
        ),
    ];
    for (target, wanted) in cases {
        assert_eq!(call(Method::Post, target), Call::Change(wanted), "{target}");
    }
}

#[test]
fn a_path_that_does_not_exist_is_404_whatever_the_method() {
    let paths = [
        "/",
        "/v1",
        "/v1/",
        "/v1/plugins/",
        "/v1/plugins/a",
        "/v1/plugins/a/",
        "/v1/plugins//b",
        "/v1/status/",
        "/v1/devices/a/b",
        "/V1/status",
        "//v1/status",
        "/v1/retry/",
    ];
    for path in paths {
        let status = refusal(Method::Other, path).status;
        assert_eq!(status, Status::NOT_FOUND, "{path}");
    }
}

#[test]
fn another_method_is_405_with_the_methods_that_are_allowed() {
    for path in [
        "/v1/plugins",
        "/v1/plugins/a/b",
        "/v1/devices",
        "/metrics",
        "/v1/status?x=1",
    ] {
        for method in [Method::Post, Method::Other] {
            let refused = refusal(method, path);
            assert_eq!(refused.status, Status::METHOD_NOT_ALLOWED);
            assert_eq!(refused.allow, Some("GET, HEAD"));
        }
    }
    for path in [
        "/v1/retry",
        "/v1/rescan",
        "/v1/reload",
        "/v1/log",
        "/v1/forget",
    ] {
        for method in [Method::Get, Method::Head, Method::Other] {
            let refused = refusal(method, path);
            assert_eq!(refused.status, Status::METHOD_NOT_ALLOWED);
            assert_eq!(refused.allow, Some("POST"));
        }
    }
}

#[test]
fn a_parameter_that_is_not_valid_is_400_and_named() {
    let get = [
        ("/v1/plugins?name=a", "unknown parameter name"),
        ("/v1/plugins?ty%70e=a", "unknown parameter ty%70e"),
        ("/v1/plugins?type=a&type=a", "parameter type is repeated"),
        (
            "/v1/plugins?type=%4",
            "parameter type is not percent-encoded",
        ),
        (
            "/v1/plugins?type=%4g",
            "parameter type is not percent-encoded",
        ),
        ("/v1/plugins?state", "parameter state is not a state"),
        ("/v1/plugins?state=%ff", "parameter state is not a state"),
        ("/v1/plugins?state=x", "parameter state is not a state"),
        ("/v1/plugins/a/%", "the name is not percent-encoded UTF-8"),
        ("/v1/plugins/%ff/a", "the type is not percent-encoded UTF-8"),
        ("/v1/plugins/a/b?x", "unknown parameter x"),
        ("/v1/devices?type=a", "unknown parameter type"),
        ("/v1/devices?name=", "parameter name is empty or not UTF-8"),
        ("/v1/watch?since=-1", "parameter since is not a number"),
        (
            "/v1/watch?since=18446744073709551616",
            "parameter since is not a number",
        ),
        ("/v1/events?follow", "parameter follow is neither 0 nor 1"),
        ("/metrics?a", "unknown parameter a"),
    ];
    let post = [
        ("/v1/retry?type=a", "parameter name is missing"),
        ("/v1/retry?name=a", "parameter type is missing"),
        (
            "/v1/retry?socket=",
            "give either the parameter socket, or type and name",
        ),
        (
            "/v1/retry?socket=a&type=a",
            "give either the parameter socket, or type and name",
        ),
        ("/v1/log", "parameter filter is missing"),
        ("/v1/log?filter=%ff", "parameter filter is not UTF-8"),
        ("/v1/forget?type=a", "parameter name is missing"),
        ("/v1/rescan?a=", "unknown parameter a"),
        ("/v1/reload?a=", "unknown parameter a"),
    ];
    for (method, cases) in [(Method::Get, &get[..]), (Method::Post, &post[..])] {
        for (target, why) in cases {
            let refused = refusal(method, target);
            assert_eq!(
                refused,
                Response::error(Status::BAD_REQUEST, why),
                "{target}"
            );
        }
    }
}
