//! Where the fields of the structs lie, against a table in the repository and, where they are installed, libfabric's headers.

use super::{ops::*, structs::*};
use std::fmt::Write;
use std::mem::offset_of;
use std::process::Command;

/// One line each: the struct's name in C, its size, and its fields with their offsets.
const TABLE: &str = include_str!("layout.txt");

macro_rules! layouts {
    ($($rust:ident $c:literal: $($field:ident)*;)*) => {
        fn ours() -> String {
            let mut out = String::new();
            $(
                write!(out, "{} {}", $c, size_of::<$rust>()).expect("into a string");
                $(write!(out, " {}={}", c_name(stringify!($field)), offset_of!($rust, $field)).expect("into a string");)*
                out.push('\n');
            )*
            out
        }
    };
}

/// A field that has the name of a Rust keyword in C.
fn c_name(field: &str) -> &str {
    if field == "kind" { "type" } else { field }
}

layouts! {
    FiProvider "fi_provider": version fi_version context name getinfo fabric cleanup;
    TxAttr "fi_tx_attr": caps mode op_flags msg_order comp_order inject_size size iov_limit rma_iov_limit tclass;
    RxAttr "fi_rx_attr": caps mode op_flags msg_order comp_order total_buffered_recv size iov_limit;
    EpAttr "fi_ep_attr":
        kind protocol protocol_version max_msg_size msg_prefix_size max_order_raw_size max_order_war_size
        max_order_waw_size mem_tag_format tx_ctx_cnt rx_ctx_cnt auth_key_size auth_key;
    DomainAttr "fi_domain_attr":
        domain name threading control_progress data_progress resource_mgmt av_type mr_mode mr_key_size
        cq_data_size cq_cnt ep_cnt tx_ctx_cnt rx_ctx_cnt max_ep_tx_ctx max_ep_rx_ctx max_ep_stx_ctx
        max_ep_srx_ctx cntr_cnt mr_iov_limit caps mode auth_key auth_key_size max_err_data mr_cnt tclass;
    FabricAttr "fi_fabric_attr": fabric name prov_name prov_version api_version;
    Info "fi_info":
        next caps mode addr_format src_addrlen dest_addrlen src_addr dest_addr handle tx_attr rx_attr ep_attr
        domain_attr fabric_attr nic;
    AvAttr "fi_av_attr": kind rx_ctx_bits count ep_per_node name map_addr flags;
    CqAttr "fi_cq_attr": size flags format wait_obj signaling_vector wait_cond wait_set;
    EqAttr "fi_eq_attr": size flags wait_obj signaling_vector wait_set;
    CntrAttr "fi_cntr_attr": events wait_obj wait_set flags;
    CqEntry "fi_cq_tagged_entry": op_context flags len buf data tag;
    CqErrEntry "fi_cq_err_entry": op_context flags len buf data tag olen err prov_errno err_data err_data_size;
    EqEntry "fi_eq_entry": fid context data;
    MrAttr "fi_mr_attr": mr_iov iov_count access offset requested_key context auth_key_size auth_key iface device;
    Msg "fi_msg": msg_iov desc iov_count addr context data;
    MsgTagged "fi_msg_tagged": msg_iov desc iov_count addr tag ignore context data;
    RmaIov "fi_rma_iov": addr len key;
    MsgRma "fi_msg_rma": msg_iov desc iov_count addr rma_iov rma_iov_count context data;
    Ioc "fi_ioc": addr count;
    MsgAtomic "fi_msg_atomic": msg_iov desc iov_count addr rma_iov rma_iov_count datatype op context data;
    AtomicAttr "fi_atomic_attr": count size;
    Fid "fid": fclass context ops;
    FiOps "fi_ops": size close bind control ops_open tostr ops_set;
    OpsFabric "fi_ops_fabric": size domain passive_ep eq_open wait_open trywait domain2;
    OpsDomain "fi_ops_domain":
        size av_open cq_open endpoint scalable_ep cntr_open poll_open stx_ctx srx_ctx query_atomic
        query_collective endpoint2;
    OpsMr "fi_ops_mr": size reg regv regattr;
    FidDomain "fid_domain": fid ops mr;
    FidMr "fid_mr": fid mem_desc key;
    OpsAv "fi_ops_av": size insert insertsvc insertsym remove lookup straddr av_set;
    OpsEq "fi_ops_eq": size read readerr write sread strerror;
    OpsCq "fi_ops_cq": size read readfrom readerr sread sreadfrom signal strerror;
    OpsCntr "fi_ops_cntr": size read readerr add set wait adderr seterr;
    OpsPoll "fi_ops_poll": size poll poll_add poll_del;
    FidEp "fid_ep": fid ops cm msg rma tagged atomic collective;
    OpsEp "fi_ops_ep": size cancel getopt setopt tx_ctx rx_ctx rx_size_left tx_size_left;
    OpsCm "fi_ops_cm": size setname getname getpeer connect listen accept reject shutdown join;
    OpsMsg "fi_ops_msg": size recv recvv recvmsg send sendv sendmsg inject senddata injectdata;
    OpsTagged "fi_ops_tagged": size recv recvv recvmsg send sendv sendmsg inject senddata injectdata;
    OpsRma "fi_ops_rma": size read readv readmsg write writev writemsg inject writedata injectdata;
    OpsAtomic "fi_ops_atomic":
        size write writev writemsg inject readwrite readwritev readwritemsg compwrite compwritev compwritemsg
        writevalid readwritevalid compwritevalid;
}

#[test]
fn fields_lie_where_the_table_says() {
    assert!(ours() == TABLE, "the structs are now\n{}", ours());
}

/// A C program that prints the table by libfabric's own headers.
fn program() -> String {
    let mut out = String::from("#include <stddef.h>\n#include <stdio.h>\n");
    for header in ["fabric", "fi_domain", "fi_endpoint", "fi_eq", "fi_cm", "fi_rma", "fi_tagged", "fi_atomic"] {
        writeln!(out, "#include <rdma/{header}.h>").expect("into a string");
    }
    out.push_str("#include <rdma/providers/fi_prov.h>\nint main(void) {\n");
    for line in TABLE.lines() {
        let mut words = line.split(' ');
        let (name, _) = (words.next().expect("a name"), words.next());
        writeln!(out, "printf(\"{name} %zu\", sizeof(struct {name}));").expect("into a string");
        for field in words.map(|word| word.split('=').next().expect("a field")) {
            writeln!(out, "printf(\" {field}=%zu\", offsetof(struct {name}, {field}));").expect("into a string");
        }
        out.push_str("puts(\"\");\n");
    }
    out.push_str("return 0; }\n");
    out
}

/// Later versions append: then sizes may be larger, and offsets are the same.
fn is_extension(ours: &str, theirs: &str) -> bool {
    let (mut ours, mut theirs) = (ours.split(' '), theirs.split(' '));
    let name = ours.next() == theirs.next();
    let size = |word: Option<&str>| word.and_then(|word| word.parse::<usize>().ok());
    name && size(theirs.next()) >= size(ours.next()) && ours.eq(theirs)
}

#[test]
fn the_table_is_what_the_headers_say() {
    if !std::path::Path::new("/usr/include/rdma/fi_endpoint.h").exists() {
        println!("-- skipped: libfabric's headers are not installed");
        return;
    }
    let dir = std::env::temp_dir().join(format!("angara-ofi-layout-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory for a program");
    let (source, binary) = (dir.join("layout.c"), dir.join("layout"));
    std::fs::write(&source, program()).expect("a program");
    let built = Command::new("cc").arg(&source).arg("-o").arg(&binary).status().expect("a C compiler");
    assert!(built.success(), "the program that asks the headers does not compile");
    let said = Command::new(&binary).output().expect("the program runs");
    std::fs::remove_dir_all(&dir).expect("the directory goes");
    let said = String::from_utf8(said.stdout).expect("plain text");
    assert_eq!(said.lines().count(), TABLE.lines().count());
    for (ours, theirs) in TABLE.lines().zip(said.lines()) {
        assert!(is_extension(ours, theirs), "\n{ours}\n{theirs}");
    }
}
