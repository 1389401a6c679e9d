//! Edits of a JSON document, as bytes: the fuzzer changes the list of edits, so that the result is still a document,
//! and mostly one of the right shape. Writing it adds the right lengths and checksums.

use serde_json::{Number, Value};

/// Bytes of an edit: what to do, at which node, and with which value.
pub(crate) const LENGTH: usize = 1 + 2 + 8;

/// More are left out, so that one input takes little time.
const MAX_EDITS: usize = 16;
/// Larger and deeper documents are not edited further: copies of copies double them.
const MAX_NODES: usize = 20_000;
/// Readers of JSON refuse deeper documents.
const MAX_DEPTH: usize = 128;

pub(crate) fn edit(what: u8, node: u16, value: u64) -> [u8; LENGTH] {
    let mut bytes = [what; LENGTH];
    bytes[1..3].copy_from_slice(&node.to_le_bytes());
    bytes[3..].copy_from_slice(&value.to_le_bytes());
    bytes
}

/// Edits to start from: some nodes of a document with some values each.
pub(crate) fn seeds(document: &Value) -> impl Iterator<Item = [u8; LENGTH]> {
    let nodes = extent(document).0 as u16;
    (0..nodes).step_by(5).flat_map(move |node| {
        let value = u64::from(node);
        [
            edit(0, node, [0, 1, u64::MAX, 1 << 32][usize::from(node) % 4]),
            edit(1 + (node % 7) as u8, node, value),
        ]
    })
}

/// The document with these edits.
pub(crate) fn edited(document: &Value, edits: &[u8]) -> Value {
    let mut document = document.clone();
    for edit in edits.chunks_exact(LENGTH).take(MAX_EDITS) {
        let (nodes, depth) = extent(&document);
        if nodes > MAX_NODES || depth > MAX_DEPTH {
            break;
        }
        let value = u64::from_le_bytes(edit[3..].try_into().expect("8 bytes"));
        let source = nth(&mut document, &mut (value as usize % nodes)).cloned().unwrap_or_default();
        let at = usize::from(u16::from_le_bytes([edit[1], edit[2]])) % nodes;
        let node = nth(&mut document, &mut { at }).expect("there are so many");
        match (edit[0] % 8, node) {
            (0, node) => *node = value.into(),
            // A number that is a little larger or smaller, a name with another end.
            (1, Value::Number(number)) => {
                *number = Number::from(number.as_u64().unwrap_or(0).wrapping_add(value as i8 as u64));
            }
            (1, Value::String(text)) => text.extend(char::from_u32(value as u32 & 0x1f_ffff)),
            (1, Value::Bool(flag)) => *flag = !*flag,
            (2 | 3, node) => *node = source,
            (4, Value::Array(items)) if !items.is_empty() => drop(items.remove(value as usize % items.len())),
            (5, Value::Array(items)) if !items.is_empty() => {
                let item = items[value as usize % items.len()].clone();
                items.insert((value >> 32) as usize % (items.len() + 1), item);
            }
            (4 | 5, Value::Object(members)) => {
                if let Some(name) = members.keys().nth(value as usize % members.len().max(1)).cloned() {
                    members.remove(&name);
                }
            }
            (6, node) => *node = Value::Null,
            (_, node) => *node = (value as i64).into(),
        }
    }
    document
}

/// The items of an array, one a line.
pub(crate) fn lines(document: &Value) -> Vec<u8> {
    let items = document.as_array().map_or(&[][..], Vec::as_slice);
    items.iter().flat_map(|item| format!("{item}\n").into_bytes()).collect()
}

/// The number of nodes, and the depth of their nesting.
fn extent(value: &Value) -> (usize, usize) {
    let sum = |(nodes, depth): (usize, usize), item| {
        let (more, deep) = extent(item);
        (nodes + more, depth.max(deep + 1))
    };
    match value {
        Value::Array(items) => items.iter().fold((1, 1), sum),
        Value::Object(members) => members.values().fold((1, 1), sum),
        _ => (1, 1),
    }
}

/// The node of this number, from the outside in, or the rest of the number if there are fewer.
fn nth<'v>(value: &'v mut Value, left: &mut usize) -> Option<&'v mut Value> {
    if *left == 0 {
        return Some(value);
    }
    *left -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, left)),
        Value::Object(members) => members.values_mut().find_map(|item| nth(item, left)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_edit_changes_its_node() {
        let document = json!({"a": [1, 2, "x"], "b": {"c": true}});
        let cases = [
            (edit(0, 2, 7), json!({"a": [7, 2, "x"], "b": {"c": true}})),
            (edit(1, 3, u64::MAX), json!({"a": [1, 1, "x"], "b": {"c": true}})),
            (edit(1, 4, 0x202e), json!({"a": [1, 2, "x\u{202e}"], "b": {"c": true}})),
            (edit(1, 6, 0), json!({"a": [1, 2, "x"], "b": {"c": false}})),
            (edit(2, 2, 5), json!({"a": [{"c": true}, 2, "x"], "b": {"c": true}})),
            (edit(4, 1, 1), json!({"a": [1, "x"], "b": {"c": true}})),
            (edit(5, 1, 2), json!({"a": ["x", 1, 2, "x"], "b": {"c": true}})),
            (edit(4, 0, 1), json!({"a": [1, 2, "x"]})),
            (edit(6, 0, 1), Value::Null),
            (edit(7, 10, u64::MAX), json!({"a": [1, -1, "x"], "b": {"c": true}})),
        ];
        for (edit, expected) in cases {
            assert_eq!(edited(&document, &edit), expected, "{edit:?}");
        }
    }

    /// Copies of the whole document into itself end.
    #[test]
    fn documents_stay_small() {
        let document: Value = (0..100).map(|i| json!([i, [i]])).collect();
        let edits: Vec<u8> = (0..700_u16).flat_map(|i| edit(2, i, 0)).collect();
        let (nodes, depth) = extent(&edited(&document, &edits));
        assert!(nodes <= 2 * MAX_NODES && depth <= 2 * MAX_DEPTH);
    }
}
