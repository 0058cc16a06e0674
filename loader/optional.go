package loader

import "strings"

// optional lists the functions that not every release of a library has, by the rdma-core release
// that introduced them. Functions not listed are from v15 or older.
var optional = map[Name][]struct{ since, symbols string }{
	IBVerbs: {
		{"v20", "ibv_get_pkey_index"},
		{"v24", "ibv_qp_to_qp_ex"},
		{"v25", "ibv_reg_mr_iova"},
		{"v28", "ibv_reg_mr_iova2"},
		{"v30", "ibv_get_device_index"},
		{"v31", "ibv_import_device ibv_import_mr ibv_import_pd ibv_query_ece ibv_set_ece ibv_unimport_mr " +
			"ibv_unimport_pd"},
		{"v32", "_ibv_query_gid_ex _ibv_query_gid_table"},
		{"v34", "ibv_reg_dmabuf_mr"},
		{"v35", "ibv_import_dm ibv_is_fork_initialized ibv_unimport_dm"},
		{"v36", "ibv_query_qp_data_in_order"},
		{"v59", "ibv_alloc_dmah ibv_dealloc_dmah ibv_reg_mr_ex"},
		{"v62", "ibv_dm_export_dmabuf_fd ibv_query_port_speed"},
		{"v64", "ibv_alloc_buf ibv_free_buf ibv_reg_buf_mr"},
		{"v65", "_ibv_query_comp_cntr_caps ibv_create_comp_cntr ibv_destroy_comp_cntr ibv_export_buf_dmabuf_fd " +
			"ibv_inc_comp_cntr ibv_inc_err_comp_cntr ibv_qp_attach_comp_cntr ibv_read_comp_cntr " +
			"ibv_read_err_comp_cntr ibv_set_comp_cntr ibv_set_err_comp_cntr"},
	},
	RDMACM: {
		{"v16", "rdma_join_multicast_ex"},
		{"v23", "rdma_establish rdma_init_qp_attr"},
		{"v31", "rdma_get_remote_ece rdma_reject_ece rdma_set_local_ece"},
		{"v60", "rdma_query_addrinfo rdma_resolve_addrinfo rdma_write_cm_event"},
		{"v65", "repoll_create repoll_ctl repoll_wait"},
	},
	EFA: {
		{"v24", "efadv_create_driver_qp"},
		{"v26", "efadv_create_qp_ex efadv_query_ah efadv_query_device"},
		{"v43", "efadv_cq_from_ibv_cq_ex efadv_create_cq"},
		{"v50", "efadv_query_mr"},
		{"v59", "efadv_query_cq efadv_query_qp_wqs"},
		{"v63", "efadv_get_max_rq_depth efadv_get_max_sq_depth"},
		{"v64", "efadv_qp_from_ibv_qp_ex"},
		{"v65", "efadv_create_comp_cntr"},
	},
	MLX5: {
		{"v16", "mlx5dv_create_qp mlx5dv_create_wq"},
		{"v17", "mlx5dv_get_clock_info"},
		{"v18", "mlx5dv_create_flow_action_esp"},
		{"v20", "mlx5dv_create_flow mlx5dv_create_flow_matcher mlx5dv_destroy_flow_matcher"},
		{"v21", "mlx5dv_create_flow_action_modify_header mlx5dv_create_flow_action_packet_reformat " +
			"mlx5dv_devx_alloc_uar mlx5dv_devx_free_uar mlx5dv_devx_general_cmd mlx5dv_devx_obj_create " +
			"mlx5dv_devx_obj_destroy mlx5dv_devx_obj_modify mlx5dv_devx_obj_query mlx5dv_devx_query_eqn " +
			"mlx5dv_devx_umem_dereg mlx5dv_devx_umem_reg mlx5dv_open_device"},
		{"v22", "mlx5dv_devx_cq_modify mlx5dv_devx_cq_query mlx5dv_devx_ind_tbl_modify mlx5dv_devx_ind_tbl_query " +
			"mlx5dv_devx_qp_modify mlx5dv_devx_qp_query mlx5dv_devx_srq_modify mlx5dv_devx_srq_query " +
			"mlx5dv_devx_wq_modify mlx5dv_devx_wq_query mlx5dv_is_supported"},
		{"v23", "mlx5dv_devx_create_cmd_comp mlx5dv_devx_destroy_cmd_comp mlx5dv_devx_get_async_cmd_comp " +
			"mlx5dv_devx_obj_query_async"},
		{"v24", "mlx5dv_alloc_dm mlx5dv_create_mkey mlx5dv_destroy_mkey mlx5dv_dr_action_create_dest_ibv_qp " +
			"mlx5dv_dr_action_create_dest_table mlx5dv_dr_action_create_dest_vport mlx5dv_dr_action_create_drop " +
			"mlx5dv_dr_action_create_flow_counter mlx5dv_dr_action_create_modify_header " +
			"mlx5dv_dr_action_create_packet_reformat mlx5dv_dr_action_create_tag mlx5dv_dr_action_destroy " +
			"mlx5dv_dr_domain_create mlx5dv_dr_domain_destroy mlx5dv_dr_domain_sync mlx5dv_dr_matcher_create " +
			"mlx5dv_dr_matcher_destroy mlx5dv_dr_rule_create mlx5dv_dr_rule_destroy mlx5dv_dr_table_create " +
			"mlx5dv_dr_table_destroy mlx5dv_qp_ex_from_ibv_qp_ex"},
		{"v25", "mlx5dv_devx_create_event_channel mlx5dv_devx_destroy_event_channel mlx5dv_devx_get_event " +
			"mlx5dv_devx_subscribe_devx_event mlx5dv_devx_subscribe_devx_event_fd"},
		{"v28", "mlx5dv_alloc_var mlx5dv_dr_action_create_flow_meter mlx5dv_dr_action_modify_flow_meter " +
			"mlx5dv_dump_dr_domain mlx5dv_dump_dr_matcher mlx5dv_dump_dr_rule mlx5dv_dump_dr_table " +
			"mlx5dv_free_var"},
		{"v29", "mlx5dv_pp_alloc mlx5dv_pp_free"},
		{"v30", "mlx5dv_dr_action_create_default_miss mlx5dv_dr_domain_set_reclaim_device_memory " +
			"mlx5dv_modify_qp_lag_port mlx5dv_query_qp_lag_port"},
		{"v31", "mlx5dv_dr_action_create_dest_devx_tir"},
		{"v32", "mlx5dv_dr_action_create_dest_array mlx5dv_dr_action_create_flow_sampler"},
		{"v33", "mlx5dv_dr_action_create_aso mlx5dv_dr_action_create_pop_vlan mlx5dv_dr_action_create_push_vlan " +
			"mlx5dv_dr_action_modify_aso mlx5dv_modify_qp_sched_elem mlx5dv_modify_qp_udp_sport " +
			"mlx5dv_sched_leaf_create mlx5dv_sched_leaf_destroy mlx5dv_sched_leaf_modify mlx5dv_sched_node_create " +
			"mlx5dv_sched_node_destroy mlx5dv_sched_node_modify"},
		{"v34", "mlx5dv_reserved_qpn_alloc mlx5dv_reserved_qpn_dealloc"},
		{"v35", "_mlx5dv_query_port mlx5dv_devx_umem_reg_ex mlx5dv_dm_map_op_addr"},
		{"v36", "_mlx5dv_mkey_check mlx5dv_dr_domain_allow_duplicate_rules mlx5dv_map_ah_to_qp " +
			"mlx5dv_qp_cancel_posted_send_wrs"},
		{"v37", "mlx5dv_crypto_login mlx5dv_crypto_login_query_state mlx5dv_crypto_logout mlx5dv_dci_stream_id_reset " +
			"mlx5dv_dek_create mlx5dv_dek_destroy mlx5dv_dek_query mlx5dv_dr_action_create_dest_ib_port " +
			"mlx5dv_dr_matcher_set_layout mlx5dv_get_vfio_device_list mlx5dv_vfio_get_events_fd " +
			"mlx5dv_vfio_process_events"},
		{"v38", "mlx5dv_dr_aso_other_domain_link mlx5dv_dr_aso_other_domain_unlink"},
		{"v40", "mlx5dv_devx_alloc_msi_vector mlx5dv_devx_create_eq mlx5dv_devx_destroy_eq " +
			"mlx5dv_devx_free_msi_vector"},
		{"v42", "mlx5dv_create_steering_anchor mlx5dv_crypto_login_create mlx5dv_crypto_login_destroy " +
			"mlx5dv_crypto_login_query mlx5dv_destroy_steering_anchor mlx5dv_dr_action_create_dest_root_table"},
		{"v54", "mlx5dv_get_data_direct_sysfs_path mlx5dv_reg_dmabuf_mr"},
		{"v62", "mlx5dv_devx_uar_export_dmabuf_fd"},
		{"v63", "__mlx5dv_create_flow _mlx5dv_get_export_sizes mlx5dv_devx_obj_export mlx5dv_devx_obj_import " +
			"mlx5dv_devx_obj_unimport mlx5dv_devx_umem_export mlx5dv_devx_umem_import mlx5dv_devx_umem_unimport " +
			"mlx5dv_var_export mlx5dv_var_import mlx5dv_var_unimport"},
	},
}

// since returns the rdma-core release that introduced a function, "" if that is v15, older or
// unknown.
func since(name Name, symbol string) string {
	for _, o := range optional[name] {
		for s := range strings.FieldsSeq(o.symbols) {
			if s == symbol {
				return o.since
			}
		}
	}
	return ""
}
