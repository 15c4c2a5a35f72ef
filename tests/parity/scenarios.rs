//! The scenarios.

use std::fs;
use std::os::unix::net::UnixListener;

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
    Steps(fn(&mut Stage<'_>)),
    /// One plugin appears, with this script.
    Plugin(fn() -> Script),
}

impl Play {
    pub(crate) fn on(&self, stage: &mut Stage<'_>) {
        match self {
            Self::Steps(play) => play(stage),
            Self::Plugin(script) => one(stage, "a.sock", script()),
        }
    }
}

/// Returns a scenario that is the same with both.
const fn same(name: &'static str, play: fn(&mut Stage<'_>)) -> Scenario {
    let (differs, play) = (None, Play::Steps(play));
    Scenario {
        name,
        differs,
        play,
    }
}

/// Returns a scenario of one plugin that is the same with both.
const fn plugin(name: &'static str, script: fn() -> Script) -> Scenario {
    let (differs, play) = (None, Play::Plugin(script));
    Scenario {
        name,
        differs,
        play,
    }
}

/// Returns a scenario that differs as a row of the guide's page describes.
const fn differs(row: &'static str, name: &'static str, play: fn(&mut Stage<'_>)) -> Scenario {
    Scenario {
        name,
        differs: Some(row),
        play: Play::Steps(play),
    }
}

pub(crate) const SCENARIOS: &[Scenario] = &[
    // The places of sockets.
    plugin("a plugin appears", || Script::named("a")),
    same("a plugin is there at the start", |stage| {
        stage.mkdir("");
        stage.plugin("a.sock", Script::named("a"));
        stage.watch();
    }),
    same("three plugins are there at the start", |stage| {
        stage.mkdir("");
        for name in ["a", "b", "c"] {
            stage.plugin(name, Script::named(name));
        }
        stage.watch();
    }),
    same("a plugin is in a directory at the start", |stage| {
        stage.mkdir("one");
        stage.plugin("one/a.sock", Script::named("a"));
        stage.watch();
    }),
    same("a plugin is two directories down at the start", |stage| {
        stage.mkdir("one/two");
        stage.plugin("one/two/a.sock", Script::named("a"));
        stage.watch();
    }),
    same("a plugin appears in a directory that is there", |stage| {
        stage.mkdir("one");
        stage.watch();
        stage.plugin("one/a.sock", Script::named("a"));
    }),
    same("a plugin appears in a new directory", |stage| {
        stage.watch();
        stage.mkdir("one");
        stage.settle();
        stage.plugin("one/a.sock", Script::named("a"));
    }),
    same("a plugin appears with its directory", |stage| {
        stage.watch();
        stage.mkdir("one");
        stage.plugin("one/a.sock", Script::named("a"));
    }),
    same("a plugin appears two new directories down", |stage| {
        stage.watch();
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
    same(
        "a socket is in a new directory that begins with a dot",
        |stage| {
            stage.watch();
            stage.mkdir(".one");
            stage.settle();
            stage.plugin(".one/a.sock", Script::named("a"));
        },
    ),
    differs(
        "a socket below a directory that begins with a dot",
        "a socket is in a directory that begins with a dot at the start",
        |stage| {
            stage.mkdir(".one");
            stage.plugin(".one/a.sock", Script::named("a"));
            stage.watch();
        },
    ),
    same("a file is not a plugin", |stage| {
        stage.watch();
        fs::write(stage.path("a.sock"), "").unwrap();
    }),
    same("a FIFO is not a plugin", |stage| {
        stage.watch();
        mkfifo(&stage.path("a.sock"), Mode::S_IRWXU).unwrap();
    }),
    same("a link leads to a plugin elsewhere", |stage| {
        stage.watch();
        let elsewhere = stage.beside("a.sock");
        stage.plugin("../a.sock", Script::named("a"));
        stage.link(elsewhere.to_str().unwrap(), "a.sock");
    }),
    same("a link leads nowhere", |stage| {
        stage.watch();
        stage.link("nowhere", "a.sock");
    }),
    same("a link leads to a directory with a plugin", |stage| {
        stage.watch();
        fs::create_dir(stage.beside("one")).unwrap();
        stage.plugin("../one/a.sock", Script::named("a"));
        stage.link("../one", "one");
    }),
    // Plugins that appear and disappear.
    same("a plugin stops", |stage| {
        one(stage, "a.sock", Script::named("a"));
        stage.stop("a.sock");
    }),
    same("a plugin stops and comes back", |stage| {
        one(stage, "a.sock", Script::named("a"));
        stage.stop("a.sock");
        stage.settle();
        stage.plugin("a.sock", Script::named("a"));
    }),
    same("a plugin stops and comes back three times", |stage| {
        one(stage, "a.sock", Script::named("a"));
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
    same("a plugin comes back under another name", |stage| {
        one(stage, "a.sock", Script::named("a"));
        stage.stop("a.sock");
        stage.settle();
        stage.plugin("a.sock", Script::named("b"));
    }),
    same("a plugin comes back with another version", |stage| {
        one(stage, "a.sock", Script::named("a"));
        stage.stop("a.sock");
        stage.settle();
        stage.plugin("a.sock", versions("a", &["2.0.0"]));
    }),
    same("a socket is removed under a plugin", |stage| {
        one(stage, "a.sock", Script::named("a"));
        stage.remove("a.sock");
    }),
    same("a plugin is killed and leaves its socket", |stage| {
        one(stage, "a.sock", Script::named("a"));
        stage.kill("a.sock");
    }),
    same(
        "a plugin is killed and comes back in the place of its socket",
        |stage| {
            one(stage, "a.sock", Script::named("a"));
            stage.kill("a.sock");
            stage.settle();
            stage.remove("a.sock");
            stage.plugin("a.sock", Script::named("a"));
        },
    ),
    same("a directory is removed with its plugin", |stage| {
        stage.watch();
        stage.mkdir("one");
        stage.settle();
        stage.plugin("one/a.sock", Script::named("a"));
        stage.settle();
        fs::remove_dir_all(stage.path("one")).unwrap();
    }),
    same("a plugin is moved in", |stage| {
        stage.watch();
        stage.plugin("../a.sock", Script::named("a"));
        stage.rename("../a.sock", "a.sock");
    }),
    differs(
        "a socket that is renamed or moved away",
        "a plugin is moved out",
        |stage| {
            one(stage, "a.sock", Script::named("a"));
            stage.rename("a.sock", "../a.sock");
        },
    ),
    differs(
        "a socket that is renamed or moved away",
        "a plugin's socket is renamed",
        |stage| {
            one(stage, "a.sock", Script::named("a"));
            stage.rename("a.sock", "b.sock");
        },
    ),
    same("two plugins", |stage| {
        one(stage, "a.sock", Script::named("a"));
        stage.plugin("b.sock", Script::named("b"));
        stage.settle();
        stage.stop("a.sock");
    }),
    same("two plugins at once", |stage| {
        stage.watch();
        stage.plugin("a.sock", Script::named("a"));
        stage.plugin("b.sock", Script::named("b"));
    }),
    same("two plugins of one name", |stage| {
        one(stage, "a.sock", Script::named("a"));
        stage.plugin("b.sock", Script::named("a"));
    }),
    same("the first of two plugins of one name stops", |stage| {
        one(stage, "a.sock", Script::named("a"));
        stage.plugin("b.sock", Script::named("a"));
        stage.settle();
        stage.stop("a.sock");
    }),
    same("the second of two plugins of one name stops", |stage| {
        one(stage, "a.sock", Script::named("a"));
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
        "more versions than are accepted",
        |stage| one(stage, "a.sock", versions("a", &["1.0.0"; 257])),
    ),
    differs(
        "more than 256 versions, or one of more than 128 octets",
        "a long version",
        |stage| {
            one(stage, "a.sock", versions("a", &["1".repeat(300).as_str()]));
        },
    ),
    plugin("a name that is not ASCII", || Script::named("füü")),
    plugin("a name like a path", || Script::named("../x/y")),
    differs("an empty name", "no name", |stage| {
        one(stage, "a.sock", Script::named(""));
    }),
    differs(
        "a name with a control character, or of more than 1 KiB",
        "a long name",
        |stage| {
            one(stage, "a.sock", Script::named(&"n".repeat(2000)));
        },
    ),
    differs(
        "a name with a control character, or of more than 1 KiB",
        "a name with a line break",
        |stage| one(stage, "a.sock", Script::named("a\nb")),
    ),
    plugin("an unknown type", || Script::info(&info("Toaster", "a"))),
    plugin("no type", || Script::info(&info("", "a"))),
    plugin("an empty reply", || {
        Script::replies(vec![Reply::Message(Vec::new())])
    }),
    same("a reply with a field that is not known", |stage| {
        let mut message = prost::Message::encode_to_vec(&info(TYPE, "a"));
        message.extend([0xfa, 0x01, 2, b'h', b'i']);
        one(
            stage,
            "a.sock",
            Script::replies(vec![Reply::Message(message)]),
        );
    }),
    same("an unknown type at first", |stage| {
        let unknown = Script::info(&info("Toaster", "a")).first();
        one(stage, "a.sock", Script::named("a").after(unknown));
        stage.until_notified("a.sock", 2);
    }),
    same("another name at first", |stage| {
        let invalid = Script::named("invalid").first();
        one(stage, "a.sock", Script::named("a").after(invalid));
        stage.until_notified("a.sock", 2);
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
    same("a plugin that can be used at the second try", |stage| {
        one(stage, "a.sock", Script::named("once"));
        stage.until_notified("a.sock", 2);
    }),
    // The answers of a plugin.
    same("not implemented at first", |stage| {
        one(
            stage,
            "a.sock",
            Script::named("a").after(Reply::Status(UNIMPLEMENTED)),
        );
        stage.until_notified("a.sock", 1);
    }),
    same("not available at first", |stage| {
        one(
            stage,
            "a.sock",
            Script::named("a").after(Reply::Status(UNAVAILABLE)),
        );
        stage.until_notified("a.sock", 1);
    }),
    same("an internal error twice", |stage| {
        let script = Script::named("a").after(Reply::Status(INTERNAL));
        one(stage, "a.sock", script.after(Reply::Status(INTERNAL)));
        stage.until_notified("a.sock", 1);
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
    same("nothing listens", |stage| {
        stage.watch();
        drop(UnixListener::bind(stage.path("a.sock")).unwrap());
    }),
    same("a plugin listens late", |stage| {
        stage.watch();
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
