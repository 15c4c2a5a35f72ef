//! `PluginInfo`, as a plugin reports it: any octets decode to an error or to a message that is not
//! larger than they are, and a message is the same after a round trip.

use plugind::proto::pluginregistration::PluginInfo;
use prost::Message as _;

/// Decodes the octets, and the encoded message again.
pub fn check(bytes: &[u8]) {
    let Ok(info) = PluginInfo::decode(bytes) else {
        return;
    };
    let versions = info.supported_versions.iter().map(String::len);
    let texts = [&info.r#type, &info.name, &info.endpoint].map(String::len);
    let length = versions.sum::<usize>() + texts.iter().sum::<usize>();
    assert!(length + info.supported_versions.len() <= bytes.len());
    let again = PluginInfo::decode(&*info.encode_to_vec());
    assert_eq!(again.as_ref(), Ok(&info));
}
