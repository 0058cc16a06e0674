/*
 * Extended CQs: the functions of struct ibv_cq_ex. Whoever breaks their rules is ended: readers are for the completion
 * of an open batch, and those of a failed one for its QPN and vendor error only; end_poll comes once after each
 * successful start_poll. The lock is held from start_poll to end_poll. What is narrower than a register comes with
 * garbage above it, as C leaves there what it likes.
 */

enum {
	EX_BYTE_LEN = 1 << 0, EX_IMM = 1 << 1, EX_QP_NUM = 1 << 2, EX_SRC_QP = 1 << 3, EX_SLID = 1 << 4, EX_SL = 1 << 5,
	EX_PATH_BITS = 1 << 6, EX_TS = 1 << 7, EX_CVLAN = 1 << 8, EX_FLOW_TAG = 1 << 9, EX_TM = 1 << 10, EX_WALL = 1 << 11,
};

#define GARBAGE 0xdead000000000000ull

static void cq_ex_rule(int kept, const char *rule)
{
	if (!kept) {
		fprintf(stderr, "fakeverbs: extended CQ: %s\n", rule);
		abort();
	}
}

static int ex_fetch(struct fcq *cq)
{
	if (hot.flood) {
		cq->cur = (struct ibv_wc){.wr_id = cq->flooded++, .opcode = WCO_WRITE, .qp_num = 0x11, .byte_len = 64};
	} else {
		if (cq->head == cq->tail)
			return ENOENT;
		struct cqe *e = &cq->ring[cq->head++ & (cq->cap - 1)];
		cq->cur = e->wc;
		if (e->sender)
			atomic_fetch_sub_explicit(&e->sender->used, e->credits, memory_order_release);
	}
	if (__builtin_expect(hot.status >= 0, 0))
		cq->cur.status = (uint32_t)hot.status;
	if (__builtin_expect(hot.opcode >= 0, 0))
		cq->cur.opcode = (uint32_t)hot.opcode;
	if (__builtin_expect(hot.flags >= 0, 0))
		cq->cur.wc_flags = (uint32_t)hot.flags;
	cq->ex.wr_id = cq->cur.wr_id;
	cq->ex.status = cq->cur.status;
	return 0;
}

static uint64_t ex_start(struct fcq *cq, struct ibv_poll_cq_attr *a)
{
	cq_ex_rule(a && !a->comp_mask, "start_poll without an attribute of no bits");
	if (__builtin_expect(hot.ex_start != 0, 0))
		return (uint32_t)hot.ex_start | GARBAGE;
	take(&cq->lock);
	cq_ex_rule(!cq->batch, "start_poll within a batch");
	int e = ex_fetch(cq);
	if (e) {
		drop(&cq->lock);
		return (uint32_t)e | GARBAGE;
	}
	cq->batch = 1;
	return GARBAGE;
}

static uint64_t ex_next(struct fcq *cq)
{
	cq_ex_rule(cq->batch > 0, "next_poll outside of a batch");
	if (__builtin_expect(hot.ex_next != 0, 0))
		return (uint32_t)hot.ex_next | GARBAGE;
	int e = ex_fetch(cq);
	if (!e)
		cq->batch++;
	return (uint32_t)e | GARBAGE;
}

static void ex_end(struct fcq *cq)
{
	cq_ex_rule(cq->batch > 0, "end_poll outside of a batch");
	hot.ex_ends++;
	cq->batch = 0;
	drop(&cq->lock);
}

#define EX_ANY(name, value) \
	static uint64_t ex_##name(struct fcq *cq) \
	{ \
		cq_ex_rule(cq->batch > 0, "read_" #name " outside of a batch"); \
		return (value); \
	}
#define EX_GOOD(name, value) \
	static uint64_t ex_##name(struct fcq *cq) \
	{ \
		cq_ex_rule(cq->batch > 0, "read_" #name " outside of a batch"); \
		cq_ex_rule(!cq->ex.status, "read_" #name " of a completion that failed"); \
		return (value); \
	}
EX_ANY(vendor_err, cq->cur.vendor_err | GARBAGE)
EX_ANY(qp_num, cq->cur.qp_num | GARBAGE)
EX_GOOD(opcode, cq->cur.opcode | GARBAGE)
EX_GOOD(wc_flags, cq->cur.wc_flags | GARBAGE)
EX_GOOD(byte_len, cq->cur.byte_len | GARBAGE)
EX_GOOD(imm_data, cq->cur.imm_or_rkey | GARBAGE)
EX_GOOD(src_qp, cq->cur.src_qp | GARBAGE)
EX_GOOD(slid, cq->cur.slid | GARBAGE)
EX_GOOD(sl, cq->cur.sl | 0xdeadbe00)
EX_GOOD(dlid_path_bits, cq->cur.dlid_path_bits | 0xdeadbe00)
/* What struct ibv_wc lacks follows from the ID. */
EX_GOOD(completion_ts, 0x1122334400000000 + cq->cur.wr_id)
EX_GOOD(cvlan, (uint16_t)(cq->cur.wr_id + 0xc000) | 0xdead0000)
EX_GOOD(flow_tag, (uint32_t)(cq->cur.wr_id + 0xf10000) | 0xab000000 | GARBAGE) /* as libmlx5 before v21 */
EX_GOOD(wallclock, 1700000000000000000 + cq->cur.wr_id)

static void ex_tm_info(struct fcq *cq, struct ibv_wc_tm_info *out)
{
	cq_ex_rule(cq->batch > 0 && !cq->ex.status, "read_tm_info of no good completion");
	out->tag = ~cq->cur.wr_id;
	out->priv = (uint32_t)(cq->cur.wr_id + 7);
}

/* A reader that was not asked for is garbage: nobody may even look at it. */
#define EX_FN(fn, bit) \
	cq->ex.fn = a->wc_flags & (bit) ? (knob("null." #fn, 0) ? NULL : (void *)ex_fn_##fn) : (void *)0xbad0bad0
#define ex_fn_read_byte_len ex_byte_len
#define ex_fn_read_imm_data ex_imm_data
#define ex_fn_read_qp_num ex_qp_num
#define ex_fn_read_src_qp ex_src_qp
#define ex_fn_read_slid ex_slid
#define ex_fn_read_sl ex_sl
#define ex_fn_read_dlid_path_bits ex_dlid_path_bits
#define ex_fn_read_completion_ts ex_completion_ts
#define ex_fn_read_cvlan ex_cvlan
#define ex_fn_read_flow_tag ex_flow_tag
#define ex_fn_read_tm_info ex_tm_info
#define ex_fn_read_wallclock ex_wallclock

static struct ibv_cq *create_cq_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *a)
{
	FAIL_P;
	fv_set("cq_ex.wc_flags", (long)a->wc_flags);
	if (a->comp_mask & ~3u)
		return fail(EINVAL);
	if (a->wc_flags & ~(uint64_t)knob("cq_ex.supported", OLD >= 17 ? 0xfff : 0x7ff))
		return fail(EOPNOTSUPP);
	if (a->comp_mask & 1 && a->flags & 1) {
		if (knob("cq_ex.never_single", 0))
			return fail(EINVAL);
		fv_set("single_threaded_cqs", knob("single_threaded_cqs", 0) + 1);
	}
	struct ibv_cq *pub = ibv_create_cq(c, (int)a->cqe, a->cq_context, a->channel, (int)a->comp_vector);
	if (!pub)
		return NULL;
	struct fcq *cq = CQ(pub);
	cq->extended = a->wc_flags != 0;
	cq->ex.start_poll = knob("null.start_poll", 0) ? NULL : (void *)ex_start;
	cq->ex.next_poll = ex_next;
	cq->ex.end_poll = ex_end;
	cq->ex.read_opcode = ex_opcode;
	cq->ex.read_vendor_err = ex_vendor_err;
	cq->ex.read_wc_flags = ex_wc_flags;
	EX_FN(read_byte_len, EX_BYTE_LEN);
	EX_FN(read_imm_data, EX_IMM);
	EX_FN(read_qp_num, EX_QP_NUM);
	EX_FN(read_src_qp, EX_SRC_QP);
	EX_FN(read_slid, EX_SLID);
	EX_FN(read_sl, EX_SL);
	EX_FN(read_dlid_path_bits, EX_PATH_BITS);
	EX_FN(read_completion_ts, EX_TS);
	EX_FN(read_cvlan, EX_CVLAN);
	EX_FN(read_flow_tag, EX_FLOW_TAG);
	EX_FN(read_tm_info, EX_TM);
	EX_FN(read_wallclock, EX_WALL);
	return pub;
}

static int query_rt_values(struct ibv_context *c, struct ibv_values_ex *v)
{
	(void)c;
	FAIL_E;
	if (v->comp_mask != 1)
		return EINVAL;
	v->comp_mask = (uint32_t)knob("rt.mask", 1);
	v->tv_sec = knob("rt.sec", 0);
	v->tv_nsec = knob("rt.nsec", 0);
	return 0;
}
