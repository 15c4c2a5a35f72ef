//! Where calls of handlers to a plugin's endpoint are dialled.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plugind::config::PathMap;
use plugind::handler::{Answer, Call, Context, HandlerTable, Plugin, PluginHandler};
use plugind::manager::Manager;

use crate::script::Script;
use crate::world::World;

/// A handler that calls every plugin on its endpoint, and sees the path that the plugin reported.
#[derive(Debug)]
struct Caller;

impl PluginHandler for Caller {
    fn validate(&mut self, _: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        Answer::YES
    }

    fn register(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer {
        assert_eq!(*plugin.endpoint, *Path::new("/var/lib/kubelet/csi.sock"));
        context.call(Call {
            endpoint: plugin.endpoint.clone(),
            method: "/csi.v1.Node/NodeGetInfo",
            request: Vec::new(),
            timeout: Duration::from_secs(1),
            wait_for_ready: false,
        });
        Answer::YES
    }

    fn deregister(&mut self, _: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        Answer::YES
    }
}

#[test]
fn a_handler_sees_the_plugins_words_and_the_call_its_endpoint() {
    let mut handlers = HandlerTable::new();
    handlers.add(["CSIPlugin"], Caller);
    let mut manager = Manager::new(handlers);
    let mut map = PathMap::default();
    map.add("/var/lib/kubelet", "/data/kubelet");
    map.add("/r", "/not/where/registration/sockets/are");
    manager.set_path_map(map);

    let mut world = World::with(manager);
    let mut script = Script::good("CSIPlugin", "disk");
    script.info.endpoint = "/var/lib/kubelet/csi.sock".into();
    world.appear("/r/disk-reg.sock", script);
    let dialled: Vec<_> = world.dials.keys().map(|path| &**path).collect();
    let expected = ["/data/kubelet/csi.sock", "/r/disk-reg.sock"];
    assert_eq!(dialled, expected.map(Path::new));
}
