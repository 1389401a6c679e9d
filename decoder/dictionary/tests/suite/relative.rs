//! Linked records whose addresses count from one that the linker has written.

use pcce_dictionary::section::{self, Record, SITES_ADDRESS_OFFSET};
use pcce_dictionary::{Module, linked};

/// A record with modules at these addresses, and this one in its header.
fn record(addresses: &[u64], base: u64) -> Vec<u8> {
    let module = |&sites_address: &u64| Module { sites_address, ..Module::default() };
    let modules: Vec<Module> = addresses.iter().map(module).collect();
    let mut bytes = linked::to_bytes(&modules, &[]);
    bytes[SITES_ADDRESS_OFFSET..SITES_ADDRESS_OFFSET + 8].copy_from_slice(&base.to_le_bytes());
    bytes
}

#[test]
fn addresses_count_from_that_of_the_record() {
    let addresses = |bytes: &[u8]| {
        let records = section::parse(bytes).expect("a record");
        let [Record::Linked(linked)] = &records[..] else { panic!("{records:?}") };
        linked.modules.iter().map(|module| module.sites_address).collect::<Vec<u64>>()
    };
    assert_eq!(addresses(&record(&[0, 7], 0x1000)), [0x1000, 0x1007]);
    assert_eq!(addresses(&record(&[0x2000, 0x3000], 0)), [0x2000, 0x3000]);
    // A record with addresses of both kinds is wrong.
    assert!(section::parse(&record(&[0x2000, 0x3000], 0x1000)).is_err());
}
