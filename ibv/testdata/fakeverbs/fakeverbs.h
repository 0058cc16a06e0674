/*
 * The part of libibverbs' ABI that the fake library implements, declared anew:
 * it builds where no RDMA headers are installed. Offsets are asserted in
 * fakeverbs.c.
 */
#ifndef FAKEVERBS_H
#define FAKEVERBS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

enum {
	OP_WRITE, OP_WRITE_IMM, OP_SEND, OP_SEND_IMM, OP_READ, OP_CMP_SWP, OP_FETCH_ADD,
	OP_LOCAL_INV, OP_BIND_MW, OP_SEND_INV, OP_FLUSH = 14, OP_ATOMIC_WRITE,
};
enum { SEND_SIGNALED = 2, SEND_SOLICITED = 4, SEND_INLINE = 8 };
enum { ACCESS_LOCAL_WRITE = 1, ACCESS_REMOTE_WRITE = 2, ACCESS_REMOTE_READ = 4, ACCESS_REMOTE_ATOMIC = 8 };
#define ACCESS_OPTIONAL 0x3ff00000u
#define ACCESS_ZERO_BASED 32u
#define ACCESS_OF_DM (15u | ACCESS_ZERO_BASED | ACCESS_OPTIONAL)
enum {
	WC_SUCCESS = 0, WC_LOC_LEN_ERR = 1, WC_LOC_PROT_ERR = 4, WC_WR_FLUSH_ERR = 5, WC_REM_INV_REQ_ERR = 9,
	WC_REM_ACCESS_ERR = 10, WC_RETRY_EXC_ERR = 12, WC_RNR_RETRY_EXC_ERR = 13,
};
enum { WCO_SEND, WCO_WRITE, WCO_READ, WCO_COMP_SWAP, WCO_FETCH_ADD, WCO_BIND_MW = 5, WCO_LOCAL_INV = 6, WCO_FLUSH = 8, WCO_ATOMIC_WRITE, WCO_RECV = 128, WCO_RECV_IMM = 129 };
enum { WCF_GRH = 1, WCF_IMM = 2, WCF_INV = 8 };
enum { QPT_RC = 2, QPT_UC = 3, QPT_UD = 4, QPT_RAW = 8, QPT_XRC_SEND = 9, QPT_XRC_RECV = 10, QPT_DRIVER = 255 };
enum { QPS_RESET, QPS_INIT, QPS_RTR, QPS_RTS, QPS_SQD, QPS_SQE, QPS_ERR };
enum { MASK_STATE = 1, MASK_DEST_QPN = 1 << 20 };
enum { EV_CQ_ERR = 0, EV_QP_FIRST = 1, EV_QP_LAST = 7, EV_SRQ_ERR = 14, EV_SRQ_LIMIT = 15, EV_LAST_WQE = 16, EV_WQ_FATAL = 19 };

struct ibv_device {
	void *ops[2];
	int32_t node_type, transport_type;
	char name[64], dev_name[64], dev_path[256], ibdev_path[256];
};

#define SLOT_ALLOC_MW ((64 - 8) / 8)
#define SLOT_BIND_MW ((72 - 8) / 8)
#define SLOT_DEALLOC_MW ((80 - 8) / 8)
#define SLOT_POLL ((96 - 8) / 8)
#define SLOT_NOTIFY ((104 - 8) / 8)
#define SLOT_POST_SRQ ((168 - 8) / 8)
#define SLOT_POST_SEND ((208 - 8) / 8)
#define SLOT_POST_RECV ((216 - 8) / 8)

struct ibv_context {
	struct ibv_device *device;
	void *ops[32];
	int cmd_fd, async_fd, num_comp_vectors;
	pthread_mutex_t mutex;
	void *abi_compat;
};

/* struct verbs_context grows downwards; only distances from the end count. */
#define BELOW 128
#define DIST_COMP_MASK 16
#define DIST_CREATE_QP_EX 56
#define DIST_QUERY_DEVICE_EX 104
#define DIST_QUERY_PORT 320
#define DIST_CREATE_CQ_EX 120
#define DIST_CLOSE_XRCD 24
#define DIST_OPEN_XRCD 32
#define DIST_CREATE_SRQ_EX 40
#define DIST_GET_SRQ_NUM 48
#define DIST_OPEN_QP 64
#define DIST_POST_SRQ_OPS 176
#define DIST_MODIFY_QP_RATE_LIMIT 216
#define DIST_QUERY_RT_VALUES 128
#define DIST_CREATE_WQ 136
#define DIST_MODIFY_WQ 144
#define DIST_DESTROY_WQ 152
#define DIST_CREATE_RWQ_IND_TABLE 160
#define DIST_DESTROY_RWQ_IND_TABLE 168
#define DIST_MODIFY_CQ 184
#define DIST_ALLOC_TD 192
#define DIST_DEALLOC_TD 200
#define DIST_ALLOC_PARENT_DOMAIN 208
#define DIST_FREE_DM 248
#define DIST_ALLOC_DM 256
#define DIST_REG_DM_MR 264
#define DIST_ADVISE_MR 312
#define DIST_ALLOC_NULL_MR 304
struct verbs_context {
	uintptr_t below[BELOW]; /* the last one is sz */
	struct ibv_context context;
};

struct ibv_mw;
struct ibv_mw_bind;
struct ibv_pd { struct ibv_context *context; uint32_t handle; };
struct ibv_td { struct ibv_context *context; };
struct ibv_dm {
	struct ibv_context *context;
	int (*memcpy_to_dm)(struct ibv_dm *, uint64_t, const void *, size_t);
	int (*memcpy_from_dm)(void *, struct ibv_dm *, uint64_t, size_t);
	uint32_t comp_mask, handle;
};
struct ibv_alloc_dm_attr { size_t length; uint32_t log_align_req, comp_mask; };
struct ibv_td_init_attr { uint32_t comp_mask; };
struct ibv_parent_domain_init_attr { struct ibv_pd *pd; struct ibv_td *td; uint32_t comp_mask; void *alloc, *free, *pd_context; };
struct ibv_cq_init_attr_ex {
	uint32_t cqe;
	void *cq_context;
	struct ibv_comp_channel *channel;
	uint32_t comp_vector;
	uint64_t wc_flags;
	uint32_t comp_mask, flags;
	struct ibv_pd *parent_domain;
};
struct ibv_modify_cq_attr { uint32_t attr_mask; struct { uint16_t cq_count, cq_period; } moderate; };
struct ibv_ah { struct ibv_context *context; struct ibv_pd *pd; uint32_t handle; };
struct ibv_mr {
	struct ibv_context *context;
	struct ibv_pd *pd;
	void *addr;
	size_t length;
	uint32_t handle, lkey, rkey;
};
struct ibv_comp_channel { struct ibv_context *context; int fd, refcnt; };
struct ibv_cq {
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	void *cq_context;
	uint32_t handle;
	int cqe;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t comp_events_completed, async_events_completed;
};
struct ibv_cq_ex_tail {
	uint32_t comp_mask, status;
	uint64_t wr_id;
	void *start_poll, *next_poll, *end_poll, *read_opcode, *read_vendor_err, *read_byte_len, *read_imm_data, *read_qp_num,
		*read_src_qp, *read_wc_flags, *read_slid, *read_sl, *read_dlid_path_bits, *read_completion_ts, *read_cvlan,
		*read_flow_tag, *read_tm_info, *read_wallclock;
};
struct ibv_poll_cq_attr { uint32_t comp_mask; };
struct ibv_wc_tm_info { uint64_t tag; uint32_t priv; };
struct ibv_values_ex { uint32_t comp_mask; int64_t tv_sec, tv_nsec; };
struct ibv_srq {
	struct ibv_context *context;
	void *srq_context;
	struct ibv_pd *pd;
	uint32_t handle;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
};
struct ibv_qp {
	struct ibv_context *context;
	void *qp_context;
	struct ibv_pd *pd;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_srq *srq;
	uint32_t handle, qp_num, state, qp_type;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
};

struct ibv_sge { uint64_t addr; uint32_t length, lkey; };
struct ibv_recv_wr { uint64_t wr_id; struct ibv_recv_wr *next; struct ibv_sge *sg_list; int num_sge; };
struct ibv_send_wr {
	uint64_t wr_id;
	struct ibv_send_wr *next;
	struct ibv_sge *sg_list;
	int num_sge;
	uint32_t opcode, send_flags, imm_or_rkey;
	union {
		struct { uint64_t remote_addr; uint32_t rkey; } rdma;
		struct { uint64_t remote_addr, compare_add, swap; uint32_t rkey; } atomic;
		struct { struct ibv_ah *ah; uint32_t remote_qpn, remote_qkey; } ud;
	} wr;
	uint32_t xrc[2];
	uint64_t bind[6];
};
struct ibv_wc {
	uint64_t wr_id;
	uint32_t status, opcode, vendor_err, byte_len, imm_or_rkey, qp_num, src_qp, wc_flags;
	uint16_t pkey_index, slid;
	uint8_t sl, dlid_path_bits;
};
struct ibv_async_event { union { void *element; int port; } u; uint32_t event_type; };

struct ibv_qp_cap { uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data; };
struct ibv_qp_init_attr {
	void *qp_context;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp_cap cap;
	uint32_t qp_type;
	int sq_sig_all;
};

enum { INIT_PD = 1 << 0, INIT_SEND_OPS = 1 << 6 };
struct ibv_qp_init_attr_ex {
	union {
		struct ibv_qp_init_attr base;
		struct { char start[60]; uint32_t comp_mask; }; /* where base has padding */
	};
	struct ibv_pd *pd;
	void *xrcd;
	uint32_t create_flags;
	uint16_t max_tso_header;
	void *rwq_ind_tbl;
	uint64_t rx_hash_conf[3];
	uint32_t source_qpn;
	uint64_t send_ops_flags;
};

struct ibv_recv_wr;
struct ibv_wq {
	struct ibv_context *context;
	void *wq_context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	uint32_t wq_num, handle, state, wq_type;
	int (*post_recv)(struct ibv_wq *, struct ibv_recv_wr *, struct ibv_recv_wr **);
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed, comp_mask;
};
struct ibv_wq_init_attr { void *wq_context; uint32_t wq_type, max_wr, max_sge; struct ibv_pd *pd; struct ibv_cq *cq; uint32_t comp_mask, create_flags; };
struct ibv_wq_attr { uint32_t attr_mask, wq_state, curr_wq_state, flags, flags_mask; };
struct ibv_rwq_ind_table_init_attr { uint32_t log_ind_tbl_size; struct ibv_wq **ind_tbl; uint32_t comp_mask; };

/* What struct ibv_qp_ex has after its struct ibv_qp. */
struct qp_ex {
	uint64_t comp_mask, wr_id;
	uint32_t wr_flags;
	void *wr_atomic_cmp_swp, *wr_atomic_fetch_add, *wr_bind_mw, *wr_local_inv, *wr_rdma_read, *wr_rdma_write,
		*wr_rdma_write_imm, *wr_send, *wr_send_imm, *wr_send_inv, *wr_send_tso, *wr_set_ud_addr, *wr_set_xrc_srqn,
		*wr_set_inline_data, *wr_set_inline_data_list, *wr_set_sge, *wr_set_sge_list, *wr_start, *wr_complete,
		*wr_abort, *wr_atomic_write, *wr_flush;
};
struct ibv_ah_attr {
	uint64_t dgid[2];
	uint32_t flow_label;
	uint8_t sgid_index, hop_limit, traffic_class, pad;
	uint16_t dlid;
	uint8_t sl, src_path_bits, static_rate, is_global, port_num;
};
struct ibv_qp_attr {
	uint32_t qp_state, cur_qp_state, path_mtu, path_mig_state, qkey, rq_psn, sq_psn, dest_qp_num, qp_access_flags;
	struct ibv_qp_cap cap;
	struct ibv_ah_attr ah_attr, alt_ah_attr;
	uint16_t pkey_index, alt_pkey_index;
	uint8_t en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port_num, timeout,
		retry_cnt, rnr_retry, alt_port_num, alt_timeout;
	uint32_t rate_limit;
};
struct ibv_srq_attr { uint32_t max_wr, max_sge, srq_limit; };
struct ibv_srq_init_attr { void *srq_context; struct ibv_srq_attr attr; };
struct ibv_xrcd { struct ibv_context *context; };
struct ibv_xrcd_init_attr { uint32_t comp_mask; int fd, oflags; };
struct ibv_srq_init_attr_ex {
	void *srq_context;
	struct ibv_srq_attr attr;
	uint32_t comp_mask, srq_type;
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
	struct ibv_cq *cq;
	struct { uint32_t max_num_tags, max_ops; } tm_cap;
};
struct ibv_qp_open_attr { uint32_t comp_mask, qp_num; struct ibv_xrcd *xrcd; void *qp_context; uint32_t qp_type; };
struct ibv_ops_wr {
	uint64_t wr_id;
	struct ibv_ops_wr *next;
	uint32_t opcode;
	int flags;
	struct {
		uint32_t unexpected_cnt, handle;
		uint64_t recv_wr_id;
		struct ibv_sge *sg_list;
		int num_sge;
		uint64_t tag, mask;
	} tm;
};
struct ibv_gid_entry { uint64_t gid[2]; uint32_t gid_index, port_num, gid_type, ndev_ifindex; };
struct ibv_port_attr {
	uint32_t state, max_mtu, active_mtu;
	int gid_tbl_len;
	uint32_t port_cap_flags, max_msg_sz, bad_pkey_cntr, qkey_viol_cntr;
	uint16_t pkey_tbl_len, lid, sm_lid;
	uint8_t lmc, max_vl_num, sm_sl, subnet_timeout, init_type_reply, active_width, active_speed, phys_state, link_layer, flags;
	uint16_t port_cap_flags2;
	uint32_t active_speed_ex;
};
struct ibv_device_attr {
	char fw_ver[64];
	uint64_t node_guid, sys_image_guid, max_mr_size, page_size_cap;
	uint32_t vendor_id, vendor_part_id, hw_ver;
	int max_qp, max_qp_wr;
	uint32_t device_cap_flags;
	int max_sge, max_sge_rd, max_cq, max_cqe, max_mr, max_pd, max_qp_rd_atom, max_ee_rd_atom, max_res_rd_atom,
		max_qp_init_rd_atom, max_ee_init_rd_atom;
	uint32_t atomic_cap;
	int unused[11];
	int max_srq, max_srq_wr, max_srq_sge;
	uint16_t max_pkeys;
	uint8_t local_ca_ack_delay, phys_port_cnt;
};

#endif
