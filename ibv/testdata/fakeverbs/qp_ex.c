/*
 * ibv_wr_*: the functions of struct ibv_qp_ex. A session is kept and posted by
 * wr_complete, as a whole or not at all. What a program must not do aborts: a
 * call outside of a session, an operation that was not asked for, a work
 * request without its setters or with too many. Part of fakeverbs.c.
 */

/* The operations and their IBV_QP_EX_WITH flags. */
static const uint64_t send_op_flags[] = {
	[OP_WRITE] = 1 << 0, [OP_WRITE_IMM] = 1 << 1, [OP_SEND] = 1 << 2, [OP_SEND_IMM] = 1 << 3, [OP_READ] = 1 << 4,
	[OP_CMP_SWP] = 1 << 5, [OP_FETCH_ADD] = 1 << 6, [OP_LOCAL_INV] = 1 << 7, [OP_BIND_MW] = 1 << 8,
	[OP_SEND_INV] = 1 << 9, [OP_FLUSH] = 1 << 11, [OP_ATOMIC_WRITE] = 1 << 12,
};

struct staged {
	struct ibv_send_wr wr;
	struct ibv_sge sge[MAX_SGE];
	char bytes[512]; /* inline data */
	uint32_t srd_qpn, srd_qkey; /* SRD: the peer, with RDMA too */
};

/* A wrong Q_Key leads nowhere. */
static uint32_t srd_peer(struct ibv_send_wr *wr)
{
	struct staged *t = (struct staged *)wr;
	struct fqp *peer = t->srd_qpn < TABLE ? qps[t->srd_qpn] : NULL;
	return peer && peer->alive && peer->attr.qkey == t->srd_qkey ? t->srd_qpn : TABLE;
}

struct session {
	uint64_t ops; /* IBV_QP_EX_WITH flags */
	int open, data, address; /* setters that the work request lacks */
	uint32_t n, cap;
	struct staged *list;
	long calls[8]; /* of the setters of data, in the order of struct qp_ex; 4 and 5 count wr_start and wr_abort */
};

static void rule(int kept, const char *text)
{
	if (kept)
		return;
	fprintf(stderr, "fakeverbs: ibv_wr_*: %s\n", text);
	abort();
}

static struct session *in_session(struct ibv_qp *qp)
{
	struct session *s = QP(qp)->session;
	rule(s && s->open, "a call outside of wr_start and wr_complete");
	return s;
}

static void whole(struct session *s)
{
	rule(!s->data, "a work request without data");
	rule(!s->address, "a datagram without an address");
}

static struct ibv_send_wr *begin(struct ibv_qp *pub, uint32_t op, int data)
{
	struct session *s = in_session(pub);
	whole(s);
	rule(s->ops & send_op_flags[op], "an operation that the QP was not created with");
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 16;
		s->list = realloc(s->list, s->cap * sizeof *s->list);
	}
	s->data = data;
	s->address = data && (pub->qp_type == QPT_UD || pub->qp_type == QPT_DRIVER);
	struct ibv_send_wr *wr = &s->list[s->n++].wr;
	rule(!(QP(pub)->ex.wr_flags & ~31u), "unknown bits in wr_flags");
	*wr = (struct ibv_send_wr){.wr_id = QP(pub)->ex.wr_id, .opcode = op, .send_flags = QP(pub)->ex.wr_flags};
	return wr;
}

static struct staged *set_data(struct ibv_qp *pub, int setter, int inl)
{
	struct session *s = in_session(pub);
	rule(s->n && s->data, "data for a work request that has some, or takes none");
	struct staged *t = &s->list[s->n - 1];
	rule(!inl == !(t->wr.send_flags & SEND_INLINE), "IBV_SEND_INLINE and the setter do not agree");
	s->data = 0;
	s->calls[setter]++;
	return t;
}

static void rdma(struct ibv_send_wr *wr, uint32_t rkey, uint64_t addr)
{
	wr->wr.rdma.remote_addr = addr;
	wr->wr.rdma.rkey = rkey;
}

static void atomic(struct ibv_send_wr *wr, uint32_t rkey, uint64_t addr, uint64_t compare_add, uint64_t swap)
{
	wr->wr.atomic.remote_addr = addr;
	wr->wr.atomic.compare_add = compare_add;
	wr->wr.atomic.swap = swap;
	wr->wr.atomic.rkey = rkey;
}

static void wr_atomic_cmp_swp(struct ibv_qp *q, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap)
{
	atomic(begin(q, OP_CMP_SWP, 1), rkey, addr, compare, swap);
}
static void wr_atomic_fetch_add(struct ibv_qp *q, uint32_t rkey, uint64_t addr, uint64_t add)
{
	atomic(begin(q, OP_FETCH_ADD, 1), rkey, addr, add, 0);
}
static void wr_local_inv(struct ibv_qp *q, uint32_t rkey) { begin(q, OP_LOCAL_INV, 0)->imm_or_rkey = rkey; }
static void wr_rdma_read(struct ibv_qp *q, uint32_t rkey, uint64_t addr) { rdma(begin(q, OP_READ, 1), rkey, addr); }
static void wr_rdma_write(struct ibv_qp *q, uint32_t rkey, uint64_t addr) { rdma(begin(q, OP_WRITE, 1), rkey, addr); }
static void wr_rdma_write_imm(struct ibv_qp *q, uint32_t rkey, uint64_t addr, uint32_t imm)
{
	struct ibv_send_wr *wr = begin(q, OP_WRITE_IMM, 1);
	rdma(wr, rkey, addr);
	wr->imm_or_rkey = imm;
}
static void wr_send(struct ibv_qp *q) { begin(q, OP_SEND, 1); }
static void wr_send_imm(struct ibv_qp *q, uint32_t imm) { begin(q, OP_SEND_IMM, 1)->imm_or_rkey = imm; }
static void wr_send_inv(struct ibv_qp *q, uint32_t rkey) { begin(q, OP_SEND_INV, 1)->imm_or_rkey = rkey; }
static void wr_flush(struct ibv_qp *q, uint32_t rkey, uint64_t addr, size_t length, uint8_t type, uint8_t level)
{
	atomic(begin(q, OP_FLUSH, 0), rkey, addr, type | (uint64_t)level << 8, length);
}
static void wr_atomic_write(struct ibv_qp *q, uint32_t rkey, uint64_t addr, const void *value)
{
	struct ibv_send_wr *wr = begin(q, OP_ATOMIC_WRITE, 0);
	rule(!(wr->send_flags & SEND_INLINE), "IBV_SEND_INLINE with an atomic write");
	struct staged *t = (struct staged *)wr;
	rdma(wr, rkey, addr);
	wr->send_flags |= SEND_INLINE;
	wr->num_sge = 1;
	t->sge[0] = (struct ibv_sge){.length = 8};
	memcpy(t->bytes, value, 8);
}

static void wr_set_ud_addr(struct ibv_qp *q, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct session *s = in_session(q);
	rule(s->address, "an address that is not needed");
	rule(ah && ah->context == q->context, "no AH of this device");
	s->address = 0;
	struct ibv_send_wr *wr = &s->list[s->n - 1].wr;
	s->list[s->n - 1].srd_qpn = qpn;
	s->list[s->n - 1].srd_qkey = qkey;
	if (q->qp_type == QPT_DRIVER)
		return;
	wr->wr.ud.ah = ah;
	wr->wr.ud.remote_qpn = qpn;
	wr->wr.ud.remote_qkey = qkey;
}

static void wr_set_sge_list(struct ibv_qp *q, size_t n, const struct ibv_sge *list)
{
	struct staged *t = set_data(q, 3, 0);
	rule(n <= MAX_SGE, "too many SGEs");
	t->wr.num_sge = (int)n;
	memcpy(t->sge, list, n * sizeof *list);
}

static void wr_set_sge(struct ibv_qp *q, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct staged *t = set_data(q, 2, 0);
	t->wr.num_sge = 1;
	t->sge[0] = (struct ibv_sge){addr, length, lkey};
}

struct ibv_data_buf { void *addr; size_t length; };

static void copy_inline(struct staged *t, size_t n, const struct ibv_data_buf *bufs)
{
	size_t at = 0;
	for (size_t i = 0; i < n; at += bufs[i++].length) {
		rule(at + bufs[i].length <= sizeof t->bytes, "more inline data than the QP takes");
		memcpy(t->bytes + at, bufs[i].addr, bufs[i].length);
	}
	t->wr.num_sge = 1;
	t->sge[0] = (struct ibv_sge){.length = (uint32_t)at};
}

static void wr_set_inline_data(struct ibv_qp *q, void *addr, size_t length)
{
	copy_inline(set_data(q, 0, 1), 1, &(struct ibv_data_buf){addr, length});
}

static void wr_set_inline_data_list(struct ibv_qp *q, size_t n, const struct ibv_data_buf *bufs)
{
	copy_inline(set_data(q, 1, 1), n, bufs);
}

static void wr_start(struct ibv_qp *q)
{
	struct session *s = QP(q)->session;
	take(&QP(q)->sq_lock);
	rule(!s->open, "wr_start in a session");
	s->open = 1;
	s->n = 0;
	s->data = s->address = 0;
	s->calls[4]++;
}

static void wr_abort(struct ibv_qp *q)
{
	struct session *s = in_session(q);
	s->open = 0;
	s->calls[5]++;
	drop(&QP(q)->sq_lock);
}

static int wr_complete(struct ibv_qp *q)
{
	struct session *s = in_session(q);
	struct fqp *qp = QP(q);
	int e = 0;
	whole(s);
	s->open = 0;
	uint32_t used = atomic_load_explicit(&qp->used, memory_order_acquire);
	if (hot.post_at)
		e = (int)hot.post_errno;
	else if (hot.sink)
		;
	else if (q->state != QPS_RTS)
		e = EINVAL; /* as libmlx5 from v40 on */
	else if (s->n > qp->init.cap.max_send_wr - used)
		e = (int)knob("wr.full", ENOMEM);
	for (uint32_t i = 0; i < s->n && !e; i++) {
		struct staged *t = &s->list[i];
		t->wr.sg_list = t->sge;
		t->wr.next = i + 1 < s->n ? &s->list[i + 1].wr : NULL;
		if (t->wr.send_flags & SEND_INLINE)
			t->sge[0].addr = (uintptr_t)t->bytes;
	}
	struct ibv_send_wr *bad = NULL;
	if (!e && s->n)
		e = post_locked(qp, &s->list[0].wr, &bad);
	drop(&qp->sq_lock);
	return e;
}

static void free_session(struct fqp *qp)
{
	if (qp->session) {
		rule(!qp->session->open, "destroyed in a session");
		free(qp->session->list);
	}
	free(qp->session);
	qp->session = NULL;
}

static struct ibv_qp *create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *a)
{
	FAIL_P;
	if (a->base.qp_type == QPT_XRC_RECV)
		return create_xrc_recv(c, a);
	if (a->comp_mask == (INIT_PD | 1 << 4 | 1 << 5)) /* indirection table, hash */
		return create_rss(a);
	const uint32_t raw = a->base.qp_type == QPT_RAW ? 1 << 2 | 1 << 3 : 0; /* creation flags, TSO header */
	fv_set("qp.comp_mask", a->comp_mask);
	fv_set("qp.create_flags", a->comp_mask & 1 << 2 ? a->create_flags : 0);
	fv_set("qp.max_tso_header", a->comp_mask & 1 << 3 ? a->max_tso_header : 0);
	if (a->comp_mask & ~(INIT_PD | INIT_SEND_OPS | raw) || !(a->comp_mask & INIT_PD) || a->pd->context != c)
		return fail(EINVAL);
	uint64_t granted = (uint64_t)knob("send_ops", 0x1fff);
	if (a->comp_mask & INIT_SEND_OPS && a->send_ops_flags & ~granted)
		return fail(EOPNOTSUPP);
	struct ibv_qp *pub = ibv_create_qp(a->pd, &a->base);
	if (!pub || !(a->comp_mask & INIT_SEND_OPS))
		return pub;
	struct fqp *qp = QP(pub);
	struct session *s = qp->session = calloc(1, sizeof *s);
	s->ops = a->send_ops_flags;
	struct qp_ex *ex = &qp->ex;
	uint64_t ops = a->send_ops_flags;
#define OP(flag, fn) if (ops & (flag)) ex->fn = fn
	OP(1 << 5, wr_atomic_cmp_swp);
	OP(1 << 6, wr_atomic_fetch_add);
	OP(1 << 7, wr_local_inv);
	OP(1 << 4, wr_rdma_read);
	OP(1 << 0, wr_rdma_write);
	OP(1 << 1, wr_rdma_write_imm);
	OP(1 << 2, wr_send);
	OP(1 << 3, wr_send_imm);
	OP(1 << 9, wr_send_inv);
	OP(1 << 11, wr_flush);
	OP(1 << 12, wr_atomic_write);
#undef OP
	if (pub->qp_type == QPT_UD || pub->qp_type == QPT_DRIVER)
		ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	return pub;
}

/* For the fake libefa. */
struct ibv_qp *fv_create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *a) { return create_qp_ex(c, a); }
struct ibv_cq *fv_create_cq_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *a) { return create_cq_ex(c, a); }

#if OLD >= 25
struct ibv_qp *ibv_qp_to_qp_ex(struct ibv_qp *qp) { return QP(qp)->session ? qp : NULL; }
#endif

/* How often a setter of data, wr_start or wr_abort was called. */
long fv_wr_calls(struct ibv_qp *qp, long which) { return QP(qp)->session->calls[which]; }
