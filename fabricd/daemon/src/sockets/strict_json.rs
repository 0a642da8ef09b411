//! JSON that says exactly what it should.
//!
//! Serde accepts unknown fields beside variants without fields even where they are denied, so
//! what was read is written again and compared.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads one JSON object, refusing fields its type does not know.
pub(crate) fn from_slice<T: DeserializeOwned + Serialize>(text: &[u8]) -> Result<T, String> {
    let value: Value = serde_json::from_slice(text).map_err(|e| e.to_string())?;
    let read: T = serde_json::from_value(value.clone()).map_err(|e| e.to_string())?;
    let known = serde_json::to_value(&read).map_err(|e| e.to_string())?;
    match (value.as_object(), known.as_object()) {
        (Some(given), Some(known)) => match given.keys().find(|k| !known.contains_key(*k)) {
            Some(key) => Err(format!("unknown field `{key}`")),
            None => Ok(read),
        },
        _ => Ok(read),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_protocol::msg::{AdapterRequest, Request};

    #[test]
    fn unknown_fields_are_refused_everywhere() {
        assert_eq!(from_slice(b"{\"cmd\":\"status\"}"), Ok(Request::Status));
        let e = from_slice::<Request>(b"{\"cmd\":\"status\",\"x\":1}").expect_err("x is unknown");
        assert!(e.contains("`x`"), "{e}");
        assert!(from_slice::<AdapterRequest>(b"{\"req\":\"detach\",\"x\":1}").is_err());
        assert!(from_slice::<Request>(b"{\"cmd\":\"job-report\",\"job\":1,\"y\":2}").is_err());
        assert!(from_slice::<Request>(b"[]").is_err() && from_slice::<Request>(b"\xff").is_err());
    }
}
