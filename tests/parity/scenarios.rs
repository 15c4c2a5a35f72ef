//! The scenarios.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use plugind::proto::pluginregistration::PluginInfo;

use crate::grpc::{Status, UNIMPLEMENTED};
use crate::plugin::{Raw, Reply, Script, info};
use crate::stage::Stage;
use crate::subject::TYPE;

/// A scenario: the life of one plugin, or of several.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// The row of the guide's page that describes the difference.
    pub(crate) differs: Option<&'static str>,
    pub(crate) play: Play,
}

/// What happens in a scenario.
pub(crate) enum Play {
    /// What the function does.
    Steps(fn(&mut Stage<'_>)),
    /// What the function does once the watch has begun.
    Watched(fn(&mut Stage<'_>)),
    /// A plugin is registered, and then what the function does.
    Registered(fn(&mut Stage<'_>)),
    /// A plugin is in this directory before the watch begins.
    There(&'static str),
    /// A plugin with this script appears, and is notified so many times.
    Notified(usize, fn() -> Script),
}

impl Play {
    pub(crate) fn on(&self, stage: &mut Stage<'_>) {
        match self {
            Self::Steps(play) => play(stage),
            Self::Watched(play) => {
                stage.watch();
                play(stage);
            }
            Self::Registered(play) => {
                one(stage, SOCKET, Script::named("a"));
                play(stage);
            }
            Self::There(dir) => {
                stage.mkdir(dir);
                let socket = Path::new(dir).join(SOCKET);
                stage.plugin(socket.to_str().unwrap(), Script::named("a"));
                stage.watch();
            }
            Self::Notified(count, script) => {
                one(stage, SOCKET, script());
                if *count > 0 {
                    stage.until_notified(SOCKET, *count);
                }
            }
        }
    }
}

/// Returns a scenario that is the same with both.
const fn same(name: &'static str, play: fn(&mut Stage<'_>)) -> Scenario {
    scenario(name, Play::Steps(play))
}

/// Returns a scenario that begins with a watch, and is the same with both.
const fn watched(name: &'static str, play: fn(&mut Stage<'_>)) -> Scenario {
    scenario(name, Play::Watched(play))
}

/// Returns a scenario that begins with a registered plugin, and is the same with both.
const fn registered(name: &'static str, play: fn(&mut Stage<'_>)) -> Scenario {
    scenario(name, Play::Registered(play))
}

/// Returns a scenario of a plugin that is in a directory at the start, the same with both.
const fn there(name: &'static str, dir: &'static str) -> Scenario {
    scenario(name, Play::There(dir))
}

/// Returns a scenario of one plugin that is the same with both.
const fn plugin(name: &'static str, script: fn() -> Script) -> Scenario {
    scenario(name, Play::Notified(0, script))
}

/// Returns a scenario of one plugin that is notified so many times, the same with both.
const fn notified(name: &'static str, count: usize, script: fn() -> Script) -> Scenario {
    scenario(name, Play::Notified(count, script))
}

const fn scenario(name: &'static str, play: Play) -> Scenario {
    Scenario {
        name,
        differs: None,
        play,
    }
}

/// Returns a scenario that differs as a row of the guide's page describes.
const fn differs(row: &'static str, scenario: Scenario) -> Scenario {
    Scenario {
        differs: Some(row),
        ..scenario
    }
}

pub(crate) const SCENARIOS: &[Scenario] = &[
    // The places of sockets.
    plugin("a plugin appears", || Script::named("a")),
    there("a plugin is there at the start", ""),
    same("three plugins are there at the start", |stage| {
        stage.mkdir("");
        for name in ["a", "b", "c"] {
            stage.plugin(name, Script::named(name));
        }
        stage.watch();
    }),
    there("a plugin is in a directory at the start", "one"),
    there("a plugin is two directories down at the start", "one/two"),
    same("a plugin appears in a directory that is there", |stage| {
        stage.mkdir("one");
        stage.watch();
        stage.plugin("one/a.sock", Script::named("a"));
    }),
    watched("a plugin appears in a new directory", |stage| {
        stage.mkdir("one");
        stage.settle();
        stage.plugin("one/a.sock", Script::named("a"));
    }),
    watched("a plugin appears with its directory", |stage| {
        stage.mkdir("one");
        stage.plugin("one/a.sock", Script::named("a"));
    }),
    watched("a plugin appears two new directories down", |stage| {
        stage.mkdir("one/two");
        stage.settle();
        stage.plugin("one/two/a.sock", Script::named("a"));
    }),
    same("a socket has no ending", |stage| {
        one(stage, "a", Script::named("a"));
    }),
    same("a socket has a space in its name", |stage| {
        one(stage, "a b.sock", Script::named("a"));
    }),
    same("a socket begins with a dot", |stage| {
        one(stage, ".a.sock", Script::named("a"));
    }),
    same("a socket begins with a dot at the start", |stage| {
        stage.mkdir("");
        stage.plugin(".a.sock", Script::named("a"));
        stage.watch();
    }),
    watched(
        "a socket is in a new directory that begins with a dot",
        |stage| {
            stage.mkdir(".one");
            stage.settle();
            stage.plugin(".one/a.sock", Script::named("a"));
        },
    ),
    differs(
        "a socket below a directory that begins with a dot",
        there(
            "a socket is in a directory that begins with a dot at the start",
            ".one",
        ),
    ),
    watched("a file is not a plugin", |stage| {
        fs::write(stage.path("a.sock"), "").unwrap();
    }),
    watched("a FIFO is not a plugin", |stage| {
        mkfifo(&stage.path("a.sock"), Mode::S_IRWXU).unwrap();
    }),
    watched("a link leads to a plugin elsewhere", |stage| {
        let elsewhere = stage.beside("a.sock");
        stage.plugin("../a.sock", Script::named("a"));
        stage.link(elsewhere.to_str().unwrap(), "a.sock");
    }),
    watched("a link leads nowhere", |stage| {
        stage.link("nowhere", "a.sock");
    }),
    watched("a link leads to a directory with a plugin", |stage| {
        fs::create_dir(stage.beside("one")).unwrap();
        stage.plugin("../one/a.sock", Script::named("a"));
        stage.link("../one", "one");
    }),
    // Plugins that appear and disappear.
    registered("a plugin stops", |stage| stage.stop("a.sock")),
    registered("a plugin stops and comes back", |stage| {
        stage.stop("a.sock");
        stage.settle();
        stage.plugin("a.sock", Script::named("a"));
    }),
    registered("a plugin stops and comes back three times", |stage| {
        for _ in 0..3 {
            stage.stop("a.sock");
            stage.settle();
            stage.plugin("a.sock", Script::named("a"));
            stage.settle();
        }
    }),
    same("a plugin that was there at the start stops", |stage| {
        stage.mkdir("");
        stage.plugin("a.sock", Script::named("a"));
        stage.watch();
        stage.stop("a.sock");
    }),
    registered("a plugin comes back under another name", |stage| {
        stage.stop("a.sock");
        stage.settle();
        stage.plugin("a.sock", Script::named("b"));
    }),
    registered("a plugin comes back with another version", |stage| {
        stage.stop("a.sock");
        stage.settle();
        stage.plugin("a.sock", versions("a", &["2.0.0"]));
    }),
    registered("a socket is removed under a plugin", |stage| {
        stage.remove("a.sock");
    }),
    registered("a plugin is killed and leaves its socket", |stage| {
        stage.kill("a.sock");
    }),
    registered(
        "a plugin is killed and comes back in the place of its socket",
        |stage| {
            stage.kill("a.sock");
            stage.settle();
            stage.remove("a.sock");
            stage.plugin("a.sock", Script::named("a"));
        },
    ),
    watched("a directory is removed with its plugin", |stage| {
        stage.mkdir("one");
        stage.settle();
        stage.plugin("one/a.sock", Script::named("a"));
        stage.settle();
        fs::remove_dir_all(stage.path("one")).unwrap();
    }),
    watched("a plugin is moved in", |stage| {
        stage.plugin("../a.sock", Script::named("a"));
        stage.rename("../a.sock", "a.sock");
    }),
    differs(
        "a socket that is renamed or moved away",
        registered("a plugin is moved out", |stage| {
            stage.rename("a.sock", "../a.sock");
        }),
    ),
    differs(
        "a socket that is renamed or moved away",
        registered("a plugin's socket is renamed", |stage| {
            stage.rename("a.sock", "b.sock");
        }),
    ),
    registered("two plugins", |stage| {
        stage.plugin("b.sock", Script::named("b"));
        stage.settle();
        stage.stop("a.sock");
    }),
    watched("two plugins at once", |stage| {
        stage.plugin("a.sock", Script::named("a"));
        stage.plugin("b.sock", Script::named("b"));
    }),
    registered("two plugins of one name", |stage| {
        stage.plugin("b.sock", Script::named("a"));
    }),
    registered("the first of two plugins of one name stops", |stage| {
        stage.plugin("b.sock", Script::named("a"));
        stage.settle();
        stage.stop("a.sock");
    }),
    registered("the second of two plugins of one name stops", |stage| {
        stage.plugin("b.sock", Script::named("a"));
        stage.settle();
        stage.stop("b.sock");
    }),
    same("two plugins at one endpoint", |stage| {
        one(stage, "a.sock", endpoint("a", "/run/csi.sock"));
        stage.plugin("b.sock", endpoint("b", "/run/csi.sock"));
    }),
    // The info that a plugin reports.
    plugin("an endpoint elsewhere", || endpoint("a", "/run/csi.sock")),
    plugin("a relative endpoint", || endpoint("a", "csi.sock")),
    plugin("an abstract endpoint", || endpoint("a", "@csi")),
    plugin("a strange endpoint", || endpoint("a", "/a/../b//c")),
    plugin("no version", || versions("a", &[])),
    plugin("three versions", || versions("a", &["1.0", "v1beta1", "x"])),
    plugin("a hundred versions", || versions("a", &["1.0.0"; 100])),
    plugin("an empty version", || versions("a", &[""])),
    differs(
        "more than 256 versions, or one of more than 128 octets",
        plugin("more versions than are accepted", || {
            versions("a", &["1.0.0"; 257])
        }),
    ),
    differs(
        "more than 256 versions, or one of more than 128 octets",
        plugin("a long version", || {
            versions("a", &["1".repeat(300).as_str()])
        }),
    ),
    plugin("a name that is not ASCII", || Script::named("füü")),
    plugin("a name like a path", || Script::named("../x/y")),
    differs("an empty name", plugin("no name", || Script::named(""))),
    differs(
        "a name with a control character, or of more than 1 KiB",
        plugin("a long name", || Script::named(&"n".repeat(2000))),
    ),
    differs(
        "a name with a control character, or of more than 1 KiB",
        plugin("a name with a line break", || Script::named("a\nb")),
    ),
    plugin("an unknown type", || Script::info(&info("Toaster", "a"))),
    plugin("no type", || Script::info(&info("", "a"))),
    plugin("an empty reply", || {
        Script::replies(vec![Reply::Message(Vec::new())])
    }),
    plugin("a reply with a field that is not known", || {
        let mut message = prost::Message::encode_to_vec(&info(TYPE, "a"));
        message.extend([0xfa, 0x01, 2, b'h', b'i']);
        Script::replies(vec![Reply::Message(message)])
    }),
    notified("an unknown type at first", 2, || {
        Script::named("a").after(Script::info(&info("Toaster", "a")).first())
    }),
    notified("another name at first", 2, || {
        Script::named("a").after(Script::named("invalid").first())
    }),
    // The decisions of a handler.
    plugin("a plugin that is not acceptable", || {
        Script::named("invalid")
    }),
    same("a plugin that is not acceptable stops", |stage| {
        one(stage, "a.sock", Script::named("invalid"));
        stage.stop("a.sock");
    }),
    plugin("a plugin that cannot be used", || Script::named("refused")),
    same("a plugin that cannot be used stops", |stage| {
        one(stage, "a.sock", Script::named("refused"));
        stage.stop("a.sock");
    }),
    notified("a plugin that can be used at the second try", 2, || {
        Script::named("once")
    }),
    // The answers of a plugin.
    notified("not implemented at first", 1, || {
        Script::named("a").after(Reply::Status(UNIMPLEMENTED))
    }),
    notified("not available at first", 1, || {
        Script::named("a").after(Reply::Status(UNAVAILABLE))
    }),
    notified("an internal error twice", 1, || {
        let script = Script::named("a").after(Reply::Status(INTERNAL));
        script.after(Reply::Status(INTERNAL))
    }),
    plugin("never implemented", || {
        Script::replies(vec![Reply::Status(UNIMPLEMENTED)])
    }),
    plugin("a reply that cannot be decoded", || {
        Script::replies(vec![Reply::Message(vec![0xff; 5])])
    }),
    plugin("no reply", || Script::replies(vec![Reply::Never])),
    same("no reply, and the socket is removed", |stage| {
        one(stage, "a.sock", Script::replies(vec![Reply::Never]));
        stage.remove("a.sock");
    }),
    plugin("a plugin that cannot take the good news", || {
        Script::named("a").refusing_notify(UNIMPLEMENTED)
    }),
    plugin("a plugin that cannot take the bad news", || {
        Script::named("invalid").refusing_notify(UNIMPLEMENTED)
    }),
    // Sockets without a gRPC server.
    watched("nothing listens", |stage| {
        drop(UnixListener::bind(stage.path("a.sock")).unwrap());
    }),
    watched("a plugin listens late", |stage| {
        stage.bind("a.sock");
        stage.settle();
        stage.listen("a.sock", Script::named("a"));
        stage.until_notified("a.sock", 1);
    }),
    plugin("every connection is closed", || Script::raw(Raw::Close)),
    plugin("nothing is said", || Script::raw(Raw::Mute)),
    plugin("HTTP/1.1 is spoken", || {
        Script::raw(Raw::Say(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    }),
    same("a good plugin beside a mute one", |stage| {
        one(stage, "a.sock", Script::raw(Raw::Mute));
        stage.plugin("b.sock", Script::named("b"));
        stage.until_notified("b.sock", 1);
    }),
];

/// The socket of the first plugin.
const SOCKET: &str = "a.sock";

/// Starts watching, and then has one plugin appear.
fn one(stage: &mut Stage<'_>, socket: &str, script: Script) {
    stage.watch();
    stage.plugin(socket, script);
    stage.settle();
}

fn endpoint(name: &str, endpoint: &str) -> Script {
    Script::info(&PluginInfo {
        endpoint: endpoint.to_owned(),
        ..info(TYPE, name)
    })
}

fn versions(name: &str, versions: &[&str]) -> Script {
    Script::info(&PluginInfo {
        supported_versions: versions.iter().map(|&it| it.to_owned()).collect(),
        ..info(TYPE, name)
    })
}

const UNAVAILABLE: Status = Status(14, "not yet");

const INTERNAL: Status = Status(13, "a bug");
