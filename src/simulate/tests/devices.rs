//! Tests of plugins with devices: their lists, their health, and what they allocate.

use super::*;

#[test]
fn a_device_plugin_lists_its_devices_after_each_change() {
    let mut life = Life::of(&profile("DevicePlugin"));
    let method = device_plugin::GET_DEVICE_PLUGIN_OPTIONS;
    let options: DevicePluginOptions = life.ask(method, &Empty {}).expect("options");
    assert_eq!(options, DevicePluginOptions::default());
    life.reports();

    life.watch(device_plugin::LIST_AND_WATCH);
    assert_eq!(life.health(), ["device-0 Healthy, device-1 Healthy"]);
    life.pass(24 * 3_600_000);
    assert!(life.health().is_empty());
    life.plugin.toggle_health(life.now);
    life.exchange();
    assert_eq!(life.health(), ["device-0 Healthy, device-1 Unhealthy"]);
    life.plugin.toggle_health(life.now);
    life.exchange();
    assert_eq!(life.health(), ["device-0 Healthy, device-1 Healthy"]);
    assert_eq!(
        life.reports(),
        [
            "device stream opened",
            "device-1 is now unhealthy",
            "device-1 is now healthy",
        ]
    );

    life.client.close(life.now);
    life.exchange();
    let server = life.plugin.endpoint(life.conn).expect("it is accepted");
    server.eof(life.now);
    life.plugin.advance(life.now);
    assert_eq!(life.reports(), ["device stream closed"]);
    assert!(life.plugin.is_closed(life.conn));
}

#[test]
fn a_slow_reader_gets_the_latest_state_of_the_devices() {
    let mut life = Life::of(&profile("DevicePlugin"));
    life.watch(device_plugin::LIST_AND_WATCH);
    for _ in 0..10_001 {
        life.plugin.toggle_health(life.now);
    }
    life.exchange();
    let health = life.health();
    assert!(health.len() < 10_001, "{}", health.len());
    let last = health.last().map(String::as_str);
    assert_eq!(last, Some("device-0 Healthy, device-1 Unhealthy"));
}

#[test]
fn a_caller_may_watch_the_devices_again_and_again() {
    let mut life = Life::of(&profile("DevicePlugin"));
    for _ in 0..150 {
        let method = device_plugin::LIST_AND_WATCH;
        let limit = 1 << 20;
        let call = life
            .client
            .server_streaming(method, b"", limit, None, life.now);
        life.exchange();
        assert_eq!(life.health().len(), 1);
        life.client.cancel(call, life.now);
        life.exchange();
        life.events.clear();
    }
    assert!(!life.plugin.is_closed(life.conn));
}

#[test]
fn devices_may_change_by_themselves() {
    let mut life = Life::of(&Profile {
        toggle_health: Some(Duration::from_secs(5)),
        ..profile("DevicePlugin")
    });
    for (millis, reports) in [
        (4_999, &[][..]),
        (1, &["device-1 is now unhealthy"]),
        (4_999, &[]),
        (1, &["device-1 is now healthy"]),
    ] {
        life.pass(millis);
        assert_eq!(life.reports(), reports);
    }
    assert_eq!(life.plugin.poll_timeout(), Some(Time::from_millis(15_000)));
}

#[test]
fn a_dra_driver_reports_health_under_either_name() {
    for method in [
        dra_resource_health::NODE_WATCH_RESOURCES,
        "/v1.DRAResourceHealth/NodeWatchResources",
    ] {
        let mut life = Life::of(&profile("DRAPlugin"));
        life.watch(method);
        life.pass(7_000);
        life.plugin.toggle_health(life.now);
        life.exchange();
        let lists: Vec<NodeWatchResourcesResponse> = life.listed();
        let second = lists.iter().map(|list| &list.devices[1]);
        let health = second.map(|device| (device.health(), device.last_updated_time));
        assert_eq!(
            health.collect::<Vec<_>>(),
            [
                (HealthStatus::Healthy, 1_000),
                (HealthStatus::Unhealthy, 1_007)
            ]
        );
    }
}

#[test]
fn a_plugin_without_devices_ignores_a_toggle() {
    let mut life = Life::of(&profile("CSIPlugin"));
    life.plugin.toggle_health(life.now);
    assert_eq!(
        life.reports(),
        ["ignored SIGUSR1: plugins of this type have no devices"]
    );
}

#[test]
fn a_device_plugin_has_an_answer_for_each_container() {
    let mut life = Life::of(&profile("DevicePlugin"));
    let allocate = |life: &mut Life, ids: &[&str], containers| {
        let devices_ids = ids.iter().map(|id| (*id).to_owned()).collect();
        let container_requests = vec![ContainerAllocateRequest { devices_ids }; containers];
        let request = AllocateRequest { container_requests };
        let answer = life.ask::<AllocateResponse>(device_plugin::ALLOCATE, &request);
        answer.map(|answer| answer.container_responses)
    };
    for containers in [0, 1, 1_000] {
        let given = allocate(&mut life, &[], containers).expect("devices");
        assert_eq!(given.len(), containers);
    }
    let given = allocate(&mut life, &["device-0", "device-1"], 1).expect("devices");
    let nodes = given[0].devices.iter().map(|it| &*it.container_path);
    let nodes: Vec<_> = nodes.collect();
    assert_eq!(nodes, ["/dev/device-0", "/dev/device-1"]);
    assert_eq!(given[0].envs["SIMULATED_DEVICES"], "device-0,device-1");
    assert_eq!(given[0].mounts.len(), 1);
    let method = device_plugin::GET_PREFERRED_ALLOCATION;
    let answer = life.ask(method, &PreferredAllocationRequest::default());
    assert_eq!(answer, Ok(PreferredAllocationResponse::default()));
    let method = device_plugin::PRE_START_CONTAINER;
    let answer = life.ask(method, &PreStartContainerRequest::default());
    assert_eq!(answer, Ok(PreStartContainerResponse {}));

    let names = Profile {
        cdi_devices: vec!["a.example/b=c".to_owned()],
        ..profile("DevicePlugin")
    };
    let given = allocate(&mut Life::of(&names), &["device-0"], 1).expect("devices");
    assert_eq!(given[0].cdi_devices[0].name, "a.example/b=c");
    assert_eq!(given[0].devices.len() + given[0].mounts.len(), 0);
    let refuses = Faults {
        refuse_allocate: true,
        ..Faults::default()
    };
    let mut refusing = Life::of(&faulty("DevicePlugin", refuses));
    let refused = allocate(&mut refusing, &["device-0"], 1).unwrap_err();
    assert_eq!(refused.code, Code::Unknown);
}
