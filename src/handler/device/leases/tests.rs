//! Tests of the devices that clients are granted; the tests send the plugins' replies.

use std::path::Path;

use super::*;
use crate::grpc::{CallError, Status};
use crate::handler::device::devices::Devices;
use crate::handler::{Effect, EffectIds, EndpointRequest};
use crate::proto::pluginregistration::PluginInfo;
use crate::proto::v1beta1;
use crate::proto::v1beta1::{
    AllocateRequest, AllocateResponse, ContainerAllocateResponse,
    ContainerPreferredAllocationResponse, DevicePluginOptions, ListAndWatchResponse, NumaNode,
    TopologyInfo,
};
use crate::time::Time;

/// The leases of a node, and the plugins of its resources.
#[derive(Default)]
struct Node {
    leases: Leases,
    plugins: Store<DevicePlugin>,
    ids: EffectIds,
    /// The effects that were requested.
    effects: Vec<Effect>,
}

const PLAIN: DevicePluginOptions = DevicePluginOptions {
    pre_start_required: false,
    get_preferred_allocation_available: false,
};

impl Node {
    /// Makes a plugin list healthy devices of a resource, each with its NUMA node.
    fn list_devices(
        &mut self,
        resource: &str,
        options: DevicePluginOptions,
        devices: &[(&str, i64)],
    ) {
        let info = PluginInfo {
            name: resource.into(),
            ..PluginInfo::default()
        };
        let plugin = Plugin::from_info(info, Path::new("/r/a").into()).unwrap();
        let mut plugin = DevicePlugin::new(&plugin.into(), options);
        let devices = devices.iter().map(|(id, node)| v1beta1::Device {
            id: (*id).to_owned(),
            health: "Healthy".to_owned(),
            topology: Some(TopologyInfo {
                nodes: vec![NumaNode { id: *node }],
            }),
        });
        let devices = devices.collect();
        let message = ListAndWatchResponse { devices }.encode_to_vec();
        plugin.replace_devices(Devices::from_message(&message).unwrap());
        self.plugins.set(plugin);
        self.serve_clients();
    }

    fn serve_clients(&mut self) {
        self.serve_clients_at(Time::ZERO);
    }

    fn serve_clients_at(&mut self, now: Time) {
        let mut context = Context::new(now, None, &mut self.ids, &mut self.effects);
        self.leases.serve_clients(&self.plugins, &mut context);
    }

    fn request_devices(
        &mut self,
        id: u64,
        resources: &[(&str, usize)],
        devices: &[&str],
        waits: bool,
    ) {
        let resources = resources
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count));
        let wish = Wish {
            resources: resources.collect(),
            devices: devices.iter().map(|&id| id.to_owned()).collect(),
            wait: waits.then_some(Duration::from_secs(1)),
        };
        let pid = i32::try_from(id).unwrap();
        let holder = Holder { pid, uid: 0 };
        self.leases.add_request(id, holder, wish, Time::ZERO);
        self.serve_clients();
    }

    /// Removes and returns the next call: its number, its method and its request.
    #[track_caller]
    fn take_next_call(&mut self) -> (EffectId, &'static str, Vec<u8>) {
        let is_call = |effect: &Effect| matches!(effect, Effect::Request { .. });
        let at = self.effects.iter().position(is_call).expect("a call");
        match self.effects.remove(at) {
            Effect::Request {
                id,
                request: EndpointRequest::Call(call),
                ..
            } => (id, call.method, call.request),
            other => unreachable!("{other:?}"),
        }
    }

    fn handle_reply(&mut self, call: EffectId, result: Result<Vec<u8>, CallFailure>) {
        let mut context = Context::new(Time::ZERO, None, &mut self.ids, &mut self.effects);
        self.leases.handle_reply(call, result, &mut context);
        self.serve_clients();
    }

    /// Answers the next call, which has to be Allocate. Returns the requested devices.
    #[track_caller]
    fn answer_allocate(&mut self) -> Vec<String> {
        let (id, method, request) = self.take_next_call();
        assert_eq!(method, device_plugin::ALLOCATE);
        let container_responses = vec![ContainerAllocateResponse::default()];
        let reply = AllocateResponse {
            container_responses,
        };
        self.handle_reply(id, Ok(reply.encode_to_vec()));
        let mut request = AllocateRequest::decode(&*request)
            .unwrap()
            .container_requests;
        assert_eq!(request.len(), 1);
        request.remove(0).devices_ids
    }

    /// Answers the next call, which has to be GetPreferredAllocation, with these devices. Returns
    /// the request.
    #[track_caller]
    fn answer_preferred(&mut self, ids: &[&str]) -> ContainerPreferredAllocationRequest {
        let (id, method, request) = self.take_next_call();
        assert_eq!(method, device_plugin::GET_PREFERRED_ALLOCATION);
        let device_i_ds = ids.iter().map(|&id| id.to_owned()).collect();
        let container_responses = vec![ContainerPreferredAllocationResponse { device_i_ds }];
        let reply = PreferredAllocationResponse {
            container_responses,
        };
        self.handle_reply(id, Ok(reply.encode_to_vec()));
        let request = PreferredAllocationRequest::decode(&*request).unwrap();
        request.container_requests.into_iter().next().unwrap()
    }

    /// Returns, for each client with an outcome since the last call of this function, whether it
    /// got devices or why not.
    fn take_outcomes(&self) -> Vec<(u64, Result<(), Refusal>)> {
        let outcomes = self.leases.take_outcomes().into_iter();
        outcomes
            .map(|(id, outcome)| (id, outcome.map(|_| ())))
            .collect()
    }

    fn held_devices(&self, resource: &str) -> Vec<(String, i32)> {
        let held = self.leases.held_devices(resource).into_iter();
        held.map(|(id, holder)| (id.into(), holder.pid)).collect()
    }

    /// Returns the number of timers that run.
    fn count_timers(&self) -> usize {
        let set = self
            .effects
            .iter()
            .filter(|it| matches!(it, Effect::SetTimer { .. }));
        let cancelled = self
            .effects
            .iter()
            .filter(|it| matches!(it, Effect::Cancel { .. }));
        set.count() - cancelled.count()
    }

    fn count_events(&self) -> usize {
        let is_event = |effect: &&Effect| matches!(effect, Effect::Emit { .. });
        self.effects.iter().filter(is_event).count()
    }
}

const A: &str = "a.example/a";
const B: &str = "a.example/b";

#[test]
fn devices_of_one_numa_node_are_allocated_together() {
    let mut node = Node::default();
    let devices = [("a", 0), ("b", 1), ("c", 0), ("d", 1), ("e", 1)];
    node.list_devices(A, PLAIN, &devices);
    for (id, count, expected) in [(1, 3, &["b", "d", "e"][..]), (2, 2, &["a", "c"])] {
        node.request_devices(id, &[(A, count)], &[], false);
        assert_eq!(node.answer_allocate(), expected);
        assert_eq!(node.take_outcomes(), [(id, Ok(()))]);
    }
    node.leases.remove_client(1);
    node.leases.remove_client(2);
    node.request_devices(3, &[(A, 4)], &[], false);
    assert_eq!(
        node.answer_allocate(),
        ["b", "d", "e", "a"],
        "the larger node is first"
    );
    node.leases.remove_client(3);
    node.request_devices(4, &[(A, 2)], &["e"], false);
    assert_eq!(node.answer_allocate()[0], "e", "it is required");
}

#[test]
fn the_call_of_a_client_that_has_gone_is_cancelled() {
    let mut node = Node::default();
    node.list_devices(A, PLAIN, &[("a", 0)]);
    node.request_devices(1, &[(A, 1)], &[], false);
    let (call, ..) = node.take_next_call();
    assert!(node.leases.remove_client(1));
    node.serve_clients();
    let is_cancel = |it: &Effect| matches!(it, Effect::Cancel { id } if *id == call);
    assert!(node.effects.iter().any(is_cancel));
    node.request_devices(2, &[(A, 1)], &[], false);
    assert_eq!(node.answer_allocate(), ["a"]);
}

#[test]
fn a_plugin_may_prefer_devices_that_are_free() {
    let prefers = DevicePluginOptions {
        get_preferred_allocation_available: true,
        ..PLAIN
    };
    let devices = [("a", 0), ("b", 0), ("c", 0)];
    for (preferred, expected) in [
        (&["b", "c"][..], &["b", "c"][..]),
        (&["c"], &["a", "b"]),
        (&["c", "c"], &["a", "b"]),
        (&["c", "d"], &["a", "b"]),
        (&[], &["a", "b"]),
    ] {
        let mut node = Node::default();
        node.list_devices(A, prefers, &devices);
        node.request_devices(1, &[(A, 2)], &[], false);
        let request = node.answer_preferred(preferred);
        assert_eq!(request.available_device_i_ds, ["a", "b", "c"]);
        assert_eq!(request.allocation_size, 2);
        assert_eq!(node.answer_allocate(), expected, "{preferred:?}");
    }
    let mut node = Node::default();
    node.list_devices(A, prefers, &devices);
    node.request_devices(1, &[(A, 2)], &["a"], false);
    assert_eq!(
        node.answer_preferred(&["b", "c"]).must_include_device_i_ds,
        ["a"]
    );
    assert_eq!(
        node.answer_allocate(),
        ["a", "b"],
        "one that is required is missing"
    );
    // Another client has taken the preferred device before the plugin answers.
    let mut node = Node::default();
    node.list_devices(A, prefers, &devices);
    node.request_devices(1, &[(A, 1)], &[], false);
    node.request_devices(2, &[(A, 1)], &[], false);
    node.answer_preferred(&["b"]);
    assert_eq!(node.held_devices(A).len(), 2);
    node.answer_preferred(&["a"]);
    let both = [node.answer_allocate(), node.answer_allocate()].concat();
    assert_eq!(both, ["a", "b"], "no device twice");
}

#[test]
fn a_client_gets_devices_of_all_its_resources_or_of_none() {
    let pre_start = DevicePluginOptions {
        pre_start_required: true,
        ..PLAIN
    };
    let mut node = Node::default();
    node.list_devices(A, pre_start, &[("a", 0)]);
    node.list_devices(B, PLAIN, &[("b", 0)]);
    node.request_devices(1, &[(A, 1), (B, 1)], &[], false);
    assert_eq!(node.answer_allocate(), ["a"]);
    let (id, method, request) = node.take_next_call();
    assert_eq!(method, device_plugin::PRE_START_CONTAINER);
    let request = PreStartContainerRequest::decode(&*request).unwrap();
    assert_eq!(request.devices_ids, ["a"]);
    node.handle_reply(id, Ok(Vec::new()));
    assert_eq!(node.take_outcomes(), []);
    assert_eq!(node.answer_allocate(), ["b"]);
    assert_eq!(node.take_outcomes(), [(1, Ok(()))]);
    assert_eq!(
        (node.held_devices(A), node.held_devices(B)),
        (vec![("a".into(), 1)], vec![("b".into(), 1)])
    );

    node.leases.remove_client(1);
    node.request_devices(2, &[(A, 1), (B, 2)], &[], false);
    let busy = "a.example/b: wanted=2 free=1 healthy=1".to_owned();
    assert_eq!(node.take_outcomes(), [(2, Err(Refusal::Busy(busy)))]);
    assert_eq!(node.held_devices(A), []);
}

#[test]
fn a_failed_call_frees_all_devices_of_the_client() {
    type Check = fn(&Refusal) -> bool;
    let status = |code| CallFailure::Call(CallError::Status(Status::new(code, "no")));
    let several = AllocateResponse {
        container_responses: vec![ContainerAllocateResponse::default(); 2],
    };
    let cases: [(Result<Vec<u8>, CallFailure>, Check); 4] = [
        (Err(status(Code::Internal)), |it| {
            matches!(it, Refusal::Failed(_))
        }),
        (Err(status(Code::DeadlineExceeded)), |it| {
            matches!(it, Refusal::Busy(_))
        }),
        (Ok(several.encode_to_vec()), |it| {
            matches!(it, Refusal::Failed(_))
        }),
        (Ok(Vec::new()), |it| matches!(it, Refusal::Failed(_))),
    ];
    for (result, check) in cases {
        let mut node = Node::default();
        node.list_devices(A, PLAIN, &[("a", 0)]);
        node.list_devices(B, PLAIN, &[("b", 0)]);
        node.request_devices(1, &[(B, 1), (A, 1)], &[], false);
        node.request_devices(2, &[(B, 1)], &[], true);
        node.answer_allocate();
        let (id, ..) = node.take_next_call();
        node.handle_reply(id, result);
        let outcomes = node.take_outcomes();
        assert!(
            matches!(&outcomes[..], [(1, Err(why))] if check(why)),
            "{outcomes:?}"
        );
        assert_eq!(node.count_events(), 1);
        assert_eq!(
            node.held_devices(B),
            [("b".into(), 2)],
            "the next one has it"
        );
        assert_eq!(node.held_devices(A), []);
    }
}

#[test]
fn clients_wait_in_the_order_of_arrival_until_their_time_is_up() {
    let mut node = Node::default();
    node.list_devices(A, PLAIN, &[("a", 0), ("b", 0)]);
    node.request_devices(1, &[(A, 1)], &["a"], false);
    node.answer_allocate();
    node.request_devices(2, &[(A, 2)], &[], true);
    node.request_devices(3, &[(A, 1)], &[], true);
    node.request_devices(4, &[(A, 1)], &[], false);
    let busy = |wanted, why: &str| {
        let why = format!("{why}a is held by process 1");
        let text = format!("a.example/a: wanted={wanted} free=1 healthy=2, {why}");
        Err(Refusal::Busy(text))
    };
    let waits = busy(1, "an earlier command waits, ");
    assert_eq!(node.take_outcomes(), [(1, Ok(())), (4, waits)]);
    assert_eq!(
        node.held_devices(A),
        [("a".into(), 1)],
        "b is kept for the one that waits"
    );
    assert_eq!(node.count_timers(), 1, "one for all that wait");
    node.serve_clients_at(Time::from_millis(1000));
    assert_eq!(node.take_outcomes(), [(2, busy(2, ""))]);
    assert_eq!(node.answer_allocate(), ["b"]);
    assert_eq!(node.take_outcomes(), [(3, Ok(()))]);
    assert!(node.leases.remove_client(1) && !node.leases.remove_client(1));
    for id in 5..9 {
        node.request_devices(id, &[(A, 3)], &[], true);
        assert_eq!(node.count_timers(), 1);
        node.leases.remove_client(id);
        node.serve_clients();
        assert_eq!(
            node.count_timers(),
            0,
            "nothing is left of one that has gone"
        );
    }
}

#[test]
fn a_held_device_that_is_lost_is_reported_once_and_stays_held() {
    let mut node = Node::default();
    node.list_devices(A, PLAIN, &[("a", 0), ("b", 0)]);
    node.request_devices(1, &[(A, 1)], &[], false);
    node.answer_allocate();
    for (devices, events) in [
        (&[("a", 0), ("b", 0)][..], 0),
        (&[("b", 0)], 1),
        (&[("b", 0)], 1),
        (&[("a", 0)], 1),
        (&[], 2),
    ] {
        node.list_devices(A, PLAIN, devices);
        assert_eq!(node.count_events(), events, "{devices:?}");
        assert_eq!(node.held_devices(A), [("a".into(), 1)]);
    }
    let plugin = node.plugins.get(A).unwrap().plugin.clone();
    node.plugins.remove(&plugin);
    node.request_devices(2, &[(A, 1)], &[], false);
    let missing = Refusal::Missing("no such resource: a.example/a".to_owned());
    assert_eq!(node.take_outcomes(), [(1, Ok(())), (2, Err(missing))]);
}
