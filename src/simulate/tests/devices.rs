//! Tests of plugins with devices: the lists of devices, their health, and Allocate.

use super::*;

#[test]
fn a_device_plugin_lists_its_devices_after_each_change() {
    let mut session = Session::start(&profile("DevicePlugin"));
    let method = device_plugin::GET_DEVICE_PLUGIN_OPTIONS;
    let options: DevicePluginOptions = session.call(method, &Empty {}).expect("options");
    assert_eq!(options, DevicePluginOptions::default());
    session.take_outputs();

    session.watch(device_plugin::LIST_AND_WATCH);
    assert_eq!(
        session.take_health(),
        ["device-0 Healthy, device-1 Healthy"]
    );
    session.advance_time(24 * 3_600_000);
    assert!(session.take_health().is_empty());
    session.plugin.toggle_health(session.now);
    session.exchange();
    assert_eq!(
        session.take_health(),
        ["device-0 Healthy, device-1 Unhealthy"]
    );
    session.plugin.toggle_health(session.now);
    session.exchange();
    assert_eq!(
        session.take_health(),
        ["device-0 Healthy, device-1 Healthy"]
    );
    assert_eq!(
        session.take_outputs(),
        [
            "device stream opened",
            "device-1 is now unhealthy",
            "device-1 is now healthy",
        ]
    );

    session.client.close(session.now);
    session.exchange();
    let server = session
        .plugin
        .endpoint(session.conn)
        .expect("it is accepted");
    server.eof(session.now);
    session.plugin.handle_io(session.now);
    assert_eq!(session.take_outputs(), ["device stream closed"]);
    assert!(session.plugin.is_closed(session.conn));
}

#[test]
fn a_slow_reader_receives_the_latest_state_of_the_devices() {
    let mut session = Session::start(&profile("DevicePlugin"));
    session.watch(device_plugin::LIST_AND_WATCH);
    for _ in 0..10_001 {
        session.plugin.toggle_health(session.now);
    }
    session.exchange();
    let health = session.take_health();
    assert!(health.len() < 10_001, "{}", health.len());
    let last = health.last().map(String::as_str);
    assert_eq!(last, Some("device-0 Healthy, device-1 Unhealthy"));
}

#[test]
fn a_caller_may_watch_the_devices_again_and_again() {
    let mut session = Session::start(&profile("DevicePlugin"));
    for _ in 0..150 {
        let method = device_plugin::LIST_AND_WATCH;
        let limit = 1 << 20;
        let call = session
            .client
            .server_streaming(method, b"", limit, None, session.now);
        session.exchange();
        assert_eq!(session.take_health().len(), 1);
        session.client.cancel(call, session.now);
        session.exchange();
        session.events.clear();
    }
    assert!(!session.plugin.is_closed(session.conn));
}

#[test]
fn the_health_of_a_device_changes_periodically() {
    let mut session = Session::start(&Profile {
        toggle_health: Some(Duration::from_secs(5)),
        ..profile("DevicePlugin")
    });
    for (millis, reports) in [
        (4_999, &[][..]),
        (1, &["device-1 is now unhealthy"]),
        (4_999, &[]),
        (1, &["device-1 is now healthy"]),
    ] {
        session.advance_time(millis);
        assert_eq!(session.take_outputs(), reports);
    }
    assert_eq!(
        session.plugin.poll_timeout(),
        Some(Time::from_millis(15_000))
    );
}

#[test]
fn a_dra_driver_reports_health_in_both_versions_of_the_service() {
    for method in [
        dra_resource_health::NODE_WATCH_RESOURCES,
        "/v1.DRAResourceHealth/NodeWatchResources",
    ] {
        let mut session = Session::start(&profile("DRAPlugin"));
        session.watch(method);
        session.advance_time(7_000);
        session.plugin.toggle_health(session.now);
        session.exchange();
        let lists: Vec<NodeWatchResourcesResponse> = session.take_lists();
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
    let mut session = Session::start(&profile("CSIPlugin"));
    session.plugin.toggle_health(session.now);
    assert_eq!(
        session.take_outputs(),
        ["ignored SIGUSR1: plugins of this type have no devices"]
    );
}

#[test]
fn allocate_has_a_response_for_each_container() {
    let mut session = Session::start(&profile("DevicePlugin"));
    let allocate = |session: &mut Session, ids: &[&str], containers| {
        let devices_ids = ids.iter().map(|id| (*id).to_owned()).collect();
        let container_requests = vec![ContainerAllocateRequest { devices_ids }; containers];
        let request = AllocateRequest { container_requests };
        let answer = session.call::<AllocateResponse>(device_plugin::ALLOCATE, &request);
        answer.map(|answer| answer.container_responses)
    };
    for containers in [0, 1, 1_000] {
        let given = allocate(&mut session, &[], containers).expect("devices");
        assert_eq!(given.len(), containers);
    }
    let given = allocate(&mut session, &["device-0", "device-1"], 1).expect("devices");
    let nodes = given[0].devices.iter().map(|it| &*it.container_path);
    let nodes: Vec<_> = nodes.collect();
    assert_eq!(nodes, ["/dev/device-0", "/dev/device-1"]);
    assert_eq!(given[0].envs["SIMULATED_DEVICES"], "device-0,device-1");
    assert_eq!(given[0].mounts.len(), 1);
    let method = device_plugin::GET_PREFERRED_ALLOCATION;
    let answer = session.call(method, &PreferredAllocationRequest::default());
    assert_eq!(answer, Ok(PreferredAllocationResponse::default()));
    let method = device_plugin::PRE_START_CONTAINER;
    let answer = session.call(method, &PreStartContainerRequest::default());
    assert_eq!(answer, Ok(PreStartContainerResponse {}));

    let names = Profile {
        cdi_devices: vec!["a.example/b=c".to_owned()],
        ..profile("DevicePlugin")
    };
    let given = allocate(&mut Session::start(&names), &["device-0"], 1).expect("devices");
    assert_eq!(given[0].cdi_devices[0].name, "a.example/b=c");
    assert_eq!(given[0].devices.len() + given[0].mounts.len(), 0);
    let refuses = Faults {
        refuse_allocate: true,
        ..Faults::default()
    };
    let mut refusing = Session::start(&profile_with("DevicePlugin", refuses));
    let refused = allocate(&mut refusing, &["device-0"], 1).unwrap_err();
    assert_eq!(refused.code, Code::Unknown);
}
