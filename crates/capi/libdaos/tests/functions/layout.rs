//! Sizes and offsets of the C structures.
use daos::abi::*;
use daos::hash::{Ops, Table};
use daos::mgmt::{ListedPool, SysInfo};
use daos::stores::Pair;
use daos::stores::fields::RemovedCounts;
use daos::stores::tensors::{Attr, CollectedCounts, SlabArgument, TensorInfo};
use daos::tse::{Sched, Task};
use std::mem::offset_of;

#[test]
fn structures_have_the_sizes_of_the_headers() {
    let sizes = [
        ("daos_handle_t", size_of::<Handle>(), 8),
        ("daos_obj_id_t", size_of::<ObjId>(), 16),
        ("d_iov_t", size_of::<Iov>(), 24),
        ("d_sg_list_t", size_of::<Sgl>(), 16),
        ("daos_range_t", size_of::<Range>(), 16),
        ("daos_array_iod_t", size_of::<ArrayIod>(), 32),
        ("daos_array_stbuf_t", size_of::<ArrayStbuf>(), 16),
        ("daos_recx_t", size_of::<Recx>(), 16),
        ("daos_iod_t", size_of::<Iod>(), 64),
        ("daos_iom_t", size_of::<Iom>(), 64),
        ("daos_key_desc_t", size_of::<KeyDesc>(), 16),
        ("daos_anchor_t", size_of::<Anchor>(), 120),
        ("daos_event_t", size_of::<Event>(), 176),
        ("daos_epoch_range_t", size_of::<EpochRange>(), 16),
        ("d_rank_list_t", size_of::<RankList>(), 16),
        ("struct daos_pool_space", size_of::<PoolSpace>(), 88),
        ("struct daos_rebuild_status", size_of::<RebuildStatus>(), 56),
        ("daos_pool_info_t", size_of::<PoolInfo>(), 192),
        ("daos_target_info_t", size_of::<TargetInfo>(), 48),
        ("struct daos_pool_cont_info", size_of::<PoolContInfo>(), 144),
        ("struct daos_pool_cont_info2", size_of::<PoolContInfo2>(), 208),
        ("daos_cont_info_t", size_of::<ContInfo>(), 48),
        ("struct daos_prop_entry", size_of::<PropEntry>(), 16),
        ("daos_prop_t", size_of::<Prop>(), 16),
        ("struct daos_prop_byteval", size_of::<ByteVal>(), 16),
        ("struct daos_prop_co_roots", size_of::<Roots>(), 64),
        ("daos_pool_cont_filter_t", size_of::<Filter>(), 16),
        ("daos_pool_cont_filter_part_t", size_of::<FilterPart>(), 16),
        ("d_list_t", size_of::<Link>(), 16),
        ("d_hash_table_ops_t", size_of::<Ops>(), 64),
        ("struct d_hash_table", size_of::<Table>(), 96),
        ("daos_mgmt_pool_info_t", size_of::<ListedPool>(), 40),
        ("struct daos_sys_info", size_of::<SysInfo>(), 4256),
        ("tse_task_t", size_of::<Task>(), 1024),
        ("tse_sched_t", size_of::<Sched>(), 400),
        ("daos_pipeline_t", size_of::<Pipeline>(), 40),
        ("daos_filter_t", size_of::<PipelineFilter>(), 40),
        ("daos_filter_part_t", size_of::<PipelinePart>(), 112),
        ("daos_pipeline_stats_t", size_of::<PipelineStats>(), 24),
        ("esker_pair_t", size_of::<Pair>(), 16),
        ("esker_field_removed_t", size_of::<RemovedCounts>(), 32),
        ("esker_tensor_collected_t", size_of::<CollectedCounts>(), 32),
        ("esker_slab_t", size_of::<SlabArgument>(), 24),
        ("esker_attr_t", size_of::<Attr>(), 32),
        ("esker_tensor_info_t", size_of::<TensorInfo>(), 1664),
    ];
    for (name, ours, theirs) in sizes {
        assert_eq!(ours, theirs, "{name}");
    }
}

#[test]
fn fields_have_the_offsets_of_the_headers() {
    let offsets = [
        ("iod_type", offset_of!(Iod, kind), 24),
        ("iod_size", offset_of!(Iod, size), 32),
        ("item", offset_of!(TensorInfo, item), 1112),
        ("attributes", offset_of!(TensorInfo, attributes), 1136),
        ("ndim", offset_of!(TensorInfo, ndim), 1144),
        ("shape", offset_of!(TensorInfo, shape), 1152),
        ("chunks", offset_of!(TensorInfo, chunks), 1408),
        ("iod_flags", offset_of!(Iod, flags), 40),
        ("iod_nr", offset_of!(Iod, nr), 48),
        ("iod_recxs", offset_of!(Iod, recxs), 56),
        ("iom_size", offset_of!(Iom, size), 16),
        ("iom_recx_lo", offset_of!(Iom, recx_lo), 24),
        ("iom_recx_hi", offset_of!(Iom, recx_hi), 40),
        ("iom_recxs", offset_of!(Iom, recxs), 56),
        ("sg_iovs", offset_of!(Sgl, iovs), 8),
        ("arr_nr_short_read", offset_of!(ArrayIod, nr_short_read), 16),
        ("arr_nr_read", offset_of!(ArrayIod, nr_read), 24),
        ("kd_val_type", offset_of!(KeyDesc, val_type), 8),
        ("da_sub_anchors", offset_of!(Anchor, sub_anchors), 8),
        ("da_buf", offset_of!(Anchor, buf), 16),
        ("ev_private", offset_of!(Event, space), 8),
        ("ev_debug", offset_of!(Event, debug), 168),
        ("pi_bits", offset_of!(PoolInfo, bits), 40),
        ("pi_space", offset_of!(PoolInfo, space), 48),
        ("pi_rebuild_st", offset_of!(PoolInfo, rebuild_st), 136),
        ("rs_fail_rank", offset_of!(RebuildStatus, fail_rank), 20),
        ("ps_ntargets", offset_of!(PoolSpace, ntargets), 80),
        ("ta_space", offset_of!(TargetInfo, space), 16),
        ("ci_lsnapshot", offset_of!(ContInfo, lsnapshot), 16),
        ("ci_md_mtime", offset_of!(ContInfo, md_mtime), 40),
        ("pci_cinfo", offset_of!(PoolContInfo2, cinfo), 144),
        ("dpe_val", offset_of!(PropEntry, value), 8),
        ("dpp_entries", offset_of!(Prop, entries), 8),
        ("ht_priv", offset_of!(Table, private), 64),
        ("ds_udata", offset_of!(Sched, udata), 8),
        ("dsi_nr_ranks", offset_of!(SysInfo, nr_ranks), 4224),
        ("dsi_ranks", offset_of!(SysInfo, ranks), 4232),
        ("dsi_ms_ranks", offset_of!(SysInfo, ms_ranks), 4248),
        ("aggr_filters", offset_of!(Pipeline, aggr_filters), 32),
        ("filter_parts", offset_of!(PipelineFilter, parts), 32),
        ("num_operands", offset_of!(PipelinePart, num_operands), 48),
        ("part_akey", offset_of!(PipelinePart, akey), 56),
        ("num_constants", offset_of!(PipelinePart, num_constants), 80),
        ("data_len", offset_of!(PipelinePart, data_len), 104),
        ("nr_akeys", offset_of!(PipelineStats, nr_akeys), 16),
    ];
    for (name, ours, theirs) in offsets {
        assert_eq!(ours, theirs, "{name}");
    }
}

/// Tells whether safe code can create a `T` from a number. With `From<u64>`, the inherent constant hides that of the
/// trait.
struct Made<T>(std::marker::PhantomData<T>);

trait NotMade {
    const OF_NUMBERS: bool = false;
}

impl<T> NotMade for Made<T> {}

impl<T: From<u64>> Made<T> {
    const OF_NUMBERS: bool = true;
}

#[test]
fn safe_code_cannot_create_an_address_from_a_number() {
    const {
        assert!(Made::<u64>::OF_NUMBERS);
        assert!(!Made::<PropValue>::OF_NUMBERS && !Made::<Ptr<u8>>::OF_NUMBERS);
    }
}
