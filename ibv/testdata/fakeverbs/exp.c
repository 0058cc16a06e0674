/*
 * The experimental verbs of MLNX_OFED 4.x: with the knob "exp", and a context of 432 bytes that bears the mark, there is
 * a struct verbs_context_exp below it. What its callers, which are inline functions in C, have to do themselves is
 * looked after: who does not is ended. Part of fakeverbs.c.
 */

enum { EXP_QPT_DCI = 32, EXP_OP_MASKED_CS = 99, EXP_OP_MASKED_FA = 100, EXP_WCO_MASKED_CS = 9, EXP_WCO_MASKED_FA = 10 };
#define EXP_WC_TIMESTAMP (1ull << 38)
#define EXP_ATOMIC_INLINE (1ull << 35)
#define EXP_DC_KEY (1ull << 54)
#define EXP_TABLE 664

struct ibv_exp_cq_init_attr { uint32_t comp_mask, flags; void *res_domain, *peer_direct_attrs; };
struct ibv_exp_qp_init_attr {
	union {
		struct ibv_qp_init_attr base;
		struct { char start[60]; uint32_t comp_mask; };
	};
	struct ibv_pd *pd;
	void *xrcd;
	uint32_t exp_create_flags, max_inl_recv;
	uint64_t qpg[2];
	uint32_t max_atomic_arg, max_inl_send_klms;
	void *res_domain, *rx_hash_conf;
	uint8_t port_num;
	void *peer_direct_attrs;
	uint16_t max_tso_header;
	uint32_t associated_qpn;
};
struct ibv_exp_qp_attr {
	union {
		struct ibv_qp_attr base; /* but its rate_limit */
		struct { char start[136]; uint64_t dct_key; uint32_t comp_mask, flow_entropy, rate_limit, burst_info[3]; };
	};
};
struct ibv_exp_dct_init_attr {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	uint64_t dc_key;
	uint8_t port;
	uint32_t access_flags;
	uint8_t min_rnr_timer, tclass;
	uint32_t flow_label, mtu;
	uint8_t pkey_index, gid_index, hop_limit;
	uint32_t inline_size, create_flags, comp_mask;
};
struct ibv_exp_dct_attr {
	uint64_t dc_key;
	uint8_t port;
	uint32_t access_flags;
	uint8_t min_rnr_timer, tclass;
	uint32_t flow_label, mtu;
	uint8_t pkey_index, gid_index, hop_limit;
	uint32_t key_violations;
	uint8_t state;
	void *srq, *cq, *pd;
	uint32_t comp_mask;
};
struct ibv_exp_dct { struct ibv_context *context; uint32_t handle, dct_num; struct ibv_pd *pd; struct ibv_srq *srq; struct ibv_cq *cq; };
struct ibv_exp_send_wr {
	uint64_t wr_id;
	struct ibv_exp_send_wr *next;
	struct ibv_sge *sg_list;
	int num_sge;
	uint32_t exp_opcode;
	int reserved;
	uint32_t ex;
	uint64_t wr[4];
	uint32_t srqn, pad;
	uint64_t task[4];
	uint32_t op[4];
	struct { struct ibv_ah *ah; uint64_t dct_access_key; uint32_t dct_number; } dc;
	uint64_t bind_mw[6];
	uint64_t exp_send_flags;
	uint32_t comp_mask;
	struct {
		uint32_t log_arg_sz;
		uint64_t remote_addr;
		uint32_t rkey;
		uint64_t data[4];
		uint64_t more[2];
	} masked;
};
struct ibv_exp_wc {
	struct ibv_wc wc; /* its wc_flags are reserved here */
	uint64_t timestamp;
	void *qp, *srq, *dct;
	uint64_t exp_wc_flags, tm_info[2];
};
struct ibv_exp_values {
	uint32_t comp_mask;
	uint64_t hwclock_ns, hwclock;
	struct { uint64_t cycles, nsec, frac, mask; uint32_t shift, mult, comp_mask; } clock_info;
};

AT(ibv_exp_qp_init_attr, max_atomic_arg, 104);
AT(ibv_exp_qp_init_attr, associated_qpn, 148);
AT(ibv_exp_qp_attr, comp_mask, 144);
AT(ibv_exp_dct_init_attr, mtu, 48);
AT(ibv_exp_dct_init_attr, comp_mask, 64);
AT(ibv_exp_dct_attr, state, 36);
AT(ibv_exp_send_wr, dc, 128);
AT(ibv_exp_send_wr, exp_send_flags, 200);
AT(ibv_exp_send_wr, masked, 216);
AT(ibv_exp_send_wr, masked.data, 240);
AT(ibv_exp_wc, timestamp, 48);
AT(ibv_exp_wc, exp_wc_flags, 80);
_Static_assert(sizeof(struct ibv_exp_send_wr) == 288 && sizeof(struct ibv_exp_wc) == 104 && sizeof(struct ibv_exp_values) == 72, "exp");

static void exp_rule(int kept, const char *rule)
{
	if (!kept) {
		fprintf(stderr, "fakeverbs: experimental verbs: %s\n", rule);
		abort();
	}
}

/* The inline functions hold the context's mutex for some verbs. */
static void exp_locked(struct ibv_context *c)
{
	exp_rule(pthread_mutex_trylock(&c->mutex) == EBUSY, "the mutex of the context is not held");
}

/* Completion queues. */

static struct ibv_cq *exp_create_cq(struct ibv_context *c, int cqe, struct ibv_comp_channel *ch, int vector, struct ibv_exp_cq_init_attr *a)
{
	exp_locked(c);
	FAIL_P;
	if (a->comp_mask != 1 || a->flags != 2)
		return fail(EINVAL);
	struct ibv_cq *pub = ibv_create_cq(c, cqe, NULL, NULL, vector);
	if (!pub)
		return NULL;
	(void)ch; /* the caller's to note */
	pub->context = (void *)0xbad0;
	pub->channel = (void *)0xbad0;
	pub->cq_context = (void *)0xbad0;
	memset(&pub->mutex, 0xa5, sizeof pub->mutex);
	memset(&pub->cond, 0xa5, sizeof pub->cond);
	pub->comp_events_completed = pub->async_events_completed = 7;
	CQ(pub)->stamped = 1;
	return pub;
}

static void exp_made(struct fcq *cq)
{
	static const pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	static const pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	exp_rule(cq->pub.context != (void *)0xbad0 && cq->pub.channel != (void *)0xbad0 && cq->pub.cq_context != (void *)0xbad0,
		 "a CQ whose fields the caller has not set");
	exp_rule(!memcmp(&cq->pub.mutex, &mutex, sizeof mutex) && !memcmp(&cq->pub.cond, &cond, sizeof cond) &&
		 cq->pub.comp_events_completed == cq->comp_reported, "a CQ whose mutex and counts the caller has not initialised");
	cq->stamped = 2;
}

static int exp_poll_cq(struct ibv_cq *pub, int n, struct ibv_exp_wc *out, uint32_t size)
{
	struct fcq *cq = CQ(pub);
	if (cq->stamped == 1)
		exp_made(cq);
	exp_rule(size == sizeof *out, "completions of another size");
	int done = 0;
	for (; done < n; done++) {
		struct ibv_wc wc;
		int got = poll_cq(pub, 1, &wc);
		if (got <= 0)
			return done ? done : got;
		memset(&out[done], 0xee, sizeof *out);
		out[done].wc = wc;
		out[done].exp_wc_flags = wc.wc_flags | 3ull << 39; /* qp and srq are set */
		out[done].wc.wc_flags = 0xee;
		if (cq->stamped) {
			out[done].timestamp = 0x5500000000000000 + wc.wr_id;
			out[done].exp_wc_flags |= EXP_WC_TIMESTAMP;
			out[done].wc.slid = 0xdead;
			out[done].wc.sl = 0xde;
		}
	}
	return done;
}

static int exp_query_values(struct ibv_context *c, int what, struct ibv_exp_values *v)
{
	(void)c;
	FAIL_E;
	if (v->comp_mask)
		return EINVAL;
	uint32_t have = (uint32_t)what & (uint32_t)knob("exp.values", 7);
	v->hwclock = (uint64_t)knob("exp.clock", 0);
	v->clock_info.cycles = 1000;
	v->clock_info.nsec = (uint64_t)knob("exp.nsec", 0);
	v->clock_info.frac = 0;
	v->clock_info.mask = ~0ull >> 1;
	v->clock_info.shift = 4;
	v->clock_info.mult = 32;
	v->comp_mask = have;
	return 0;
}

/* Queue pairs. */

static struct ibv_qp *exp_create_qp(struct ibv_context *c, struct ibv_exp_qp_init_attr *a)
{
	(void)c;
	FAIL_P;
	exp_rule(a->comp_mask & 1 && a->comp_mask != 1, "a QP that classic verbs create");
	if (a->comp_mask & ~0x25u || !(a->comp_mask & 0x20) != !a->max_atomic_arg)
		return fail(EINVAL);
	uint32_t sizes = (uint32_t)knob("exp.atomics", 8 | 16 | 32);
	if (a->max_atomic_arg & ~sizes)
		return fail(EINVAL);
	struct ibv_qp *qp = ibv_create_qp(a->pd, &a->base);
	if (qp)
		QP(qp)->max_atomic = a->max_atomic_arg;
	return qp;
}

/* By the table of the kernel of MLNX_OFED 4. */
static int exp_modify_qp(struct ibv_qp *pub, struct ibv_exp_qp_attr *a, uint64_t mask)
{
	static const struct { uint64_t need, may; } steps[] = {
		{1 << 4 | 1 << 5 | EXP_DC_KEY, 0}, {1 << 7 | 1 << 8, 1 << 4 | EXP_DC_KEY},
		{1 << 9 | 1 << 10 | 1 << 11 | 1 << 13, 1 << 1 | 1 << 14 | 1 << 15 | 1 << 18},
	};
	FAIL_E;
	struct fqp *qp = QP(pub);
	uint32_t from = qp->state, to = a->base.qp_state;
	exp_rule(qp->dci && !a->comp_mask, "modifying what is no DCI, or unknown bits");
	if (!(mask & 1))
		return EINVAL;
	if (to != QPS_RESET && to != QPS_ERR) {
		if (from > QPS_RTR || to != from + 1)
			return EINVAL;
		if ((mask & steps[from].need) != steps[from].need || mask & ~(steps[from].need | steps[from].may | 1))
			return EINVAL;
	}
	if (to == QPS_RTR && a->base.ah_attr.port_num == 0)
		return EINVAL;
	qp->state = pub->state = to;
	qp->attr = a->base;
	if (to == QPS_RESET) {
		purge(pub->send_cq, pub->qp_num);
		qp->used = qp->unsignaled = 0;
	}
	return 0;
}

/* A DCT is the receiving half of a queue pair. */

struct fdct { struct ibv_exp_dct pub; struct ibv_qp *qp; struct ibv_exp_dct_init_attr attr; };

static struct ibv_exp_dct *create_dct(struct ibv_context *c, struct ibv_exp_dct_init_attr *a)
{
	exp_locked(c);
	FAIL_P;
	if (!a->pd || !a->cq || !a->srq || a->port < 1 || a->port > PORTS || a->mtu < 1 || a->mtu > 5 || a->gid_index >= GIDS ||
	    a->comp_mask || a->create_flags || a->inline_size || a->access_flags & ~14u || a->min_rnr_timer > 31)
		return fail(EINVAL);
	struct ibv_qp_init_attr init = {.send_cq = a->cq, .recv_cq = a->cq, .srq = a->srq, .qp_type = QPT_RC};
	struct fdct *d = calloc(1, sizeof *d);
	d->qp = ibv_create_qp(a->pd, &init);
	if (!d->qp) {
		free(d);
		return NULL;
	}
	QP(d->qp)->state = d->qp->state = QPS_RTR;
	QP(d->qp)->dct = 1;
	QP(d->qp)->dc_key = a->dc_key;
	QP(d->qp)->attr.qp_access_flags = a->access_flags;
	d->attr = *a;
	d->pub = (struct ibv_exp_dct){(void *)0xbad0, 3, d->qp->qp_num, a->pd, a->srq, a->cq};
	return &d->pub;
}

static int destroy_dct(struct ibv_exp_dct *pub)
{
	exp_rule(pub->context != (void *)0xbad0, "a DCT whose context the caller has not set");
	exp_locked(pub->context);
	FAIL_E;
	struct fdct *d = (struct fdct *)pub;
	QP(d->qp)->dct = 0;
	ibv_destroy_qp(d->qp);
	memset(d, 0xdb, sizeof *d);
	free(d);
	return 0;
}

static int query_dct(struct ibv_exp_dct *pub, struct ibv_exp_dct_attr *a)
{
	exp_locked(pub->context);
	FAIL_E;
	if (a->comp_mask)
		return EINVAL;
	struct ibv_exp_dct_init_attr *i = &((struct fdct *)pub)->attr;
	*a = (struct ibv_exp_dct_attr){i->dc_key, i->port, i->access_flags, i->min_rnr_timer, i->tclass, i->flow_label, i->mtu, i->pkey_index,
		i->gid_index, i->hop_limit, 0, (uint8_t)knob("exp.dct_state", 0), i->srq, i->cq, i->pd, 0};
	return 0;
}

static int exp_query_device(struct ibv_context *c, uint64_t *a)
{
	(void)c;
	FAIL_E;
	uint32_t ask = ((uint32_t *)a)[57];
	exp_rule(!(ask & ~0x80908u), "attributes that nobody reads");
	memset(a, 0, 600);
	((uint32_t *)a)[57] = ask & (uint32_t)knob("exp.attrs", -1);
	a[36] = (uint64_t)knob("exp.caps", 1l << 32 | 1l << 36 | 1l << 46); /* exp_device_cap_flags */
	a[39] = (uint64_t)knob("exp.atomics", 8 | 16 | 32); /* ext_atom: the sizes, and log_max_atomic_inline */
	((uint32_t *)a)[81] = 5;
	a[57] = a[39]; /* masked_atomic, and those whose answers are big-endian */
	a[58] = (uint64_t)knob("exp.big", 16 | 32);
	return 0;
}

/* Posting. */

/* masked executes an atomic of n bytes with masks at remote; old gets what was there. */
static void masked(struct ibv_exp_send_wr *wr, uint64_t *remote, uint64_t *old, unsigned n)
{
	const uint64_t *arg[4];
	for (int i = 0; i < 4; i++)
		arg[i] = n == 8 ? &wr->masked.data[i] : (uint64_t *)(uintptr_t)wr->masked.data[i];
	memcpy(old, remote, n);
	if (wr->exp_opcode == EXP_OP_MASKED_FA) {
		for (unsigned i = 0; i < n / 8; i++) {
			uint64_t sum = 0, carry = 0;
			for (int b = 0; b < 64; b++) {
				uint64_t s = (old[i] >> b & 1) + (arg[0][i] >> b & 1) + carry;
				sum |= (s & 1) << b;
				carry = arg[1][i] >> b & 1 ? 0 : s >> 1;
			}
			remote[i] = sum;
		}
		return;
	}
	for (unsigned i = 0; i < n / 8; i++)
		if ((old[i] ^ arg[1][i]) & arg[0][i])
			return;
	for (unsigned i = 0; i < n / 8; i++)
		remote[i] = (old[i] & ~arg[3][i]) | (arg[2][i] & arg[3][i]);
}

/* exp_of returns the request that the classic one was made of, NULL if there was none. */
static struct ibv_exp_send_wr *exp_of(struct fqp *qp, struct ibv_send_wr *wr)
{
	return qp->dci || qp->max_atomic ? (struct ibv_exp_send_wr *)(uintptr_t)wr->bind[5] : NULL;
}

static int exp_masked(struct fqp *qp, struct ibv_send_wr *wr, char *buf, uint64_t n)
{
	struct ibv_exp_send_wr *e = exp_of(qp, wr);
	char *remote = mem(e->masked.rkey, e->masked.remote_addr, n, ACCESS_REMOTE_ATOMIC);
	if (n != 1ull << e->masked.log_arg_sz)
		return WC_LOC_LEN_ERR;
	if (!remote || e->masked.remote_addr % n)
		return WC_REM_ACCESS_ERR;
	masked(e, (uint64_t *)remote, (uint64_t *)buf, (unsigned)n);
	return gather(wr, buf, 1);
}

/* exp_peer returns the DCT that a request names, NULL if it is not there or has another key. */
static struct fqp *exp_peer(struct ibv_send_wr *wr)
{
	struct ibv_exp_send_wr *e = (struct ibv_exp_send_wr *)(uintptr_t)wr->bind[5];
	struct fqp *p = e->dc.dct_number < TABLE ? qps[e->dc.dct_number] : NULL;
	return p && p->alive && p->dct && p->dc_key == e->dc.dct_access_key ? p : NULL;
}

static int exp_post_send(struct ibv_qp *pub, struct ibv_exp_send_wr *e, struct ibv_exp_send_wr **bad)
{
	struct fqp *qp = QP(pub);
	int err = 0;
	exp_rule(qp->dci || qp->max_atomic, "experimental posting on a classic QP");
	take(&qp->sq_lock);
	for (long k = 1; e; e = e->next, k++) {
		int atomic = e->exp_opcode == EXP_OP_MASKED_CS || e->exp_opcode == EXP_OP_MASKED_FA;
		struct ibv_send_wr wr = {.wr_id = e->wr_id, .sg_list = e->sg_list, .num_sge = e->num_sge, .opcode = e->exp_opcode,
			.send_flags = (uint32_t)e->exp_send_flags & 31, .imm_or_rkey = e->ex, .xrc = {e->srqn}}, *worse;
		exp_rule(!e->comp_mask && !(e->exp_send_flags & ~(31ull | EXP_ATOMIC_INLINE)), "unknown bits");
		exp_rule(!qp->dci || (e->dc.ah && e->dc.ah->pd == pub->pd), "a DCI without an address");
		exp_rule(atomic || e->exp_opcode <= OP_FETCH_ADD, "an opcode of other verbs");
		memcpy(&wr.wr, e->wr, sizeof e->wr);
		wr.bind[5] = (uintptr_t)e;
		if (hot.post_at == k)
			err = (int)hot.post_errno;
		else if (atomic && (!(e->exp_send_flags & EXP_ATOMIC_INLINE) || 1u << e->masked.log_arg_sz > qp->max_atomic))
			err = EINVAL;
		else
			err = post_locked(qp, &wr, &worse);
		if (err)
			break;
	}
	drop(&qp->sq_lock);
	if (err && !(hot.post_at && hot.post_no_bad))
		*bad = e;
	return err;
}

/* exp_ops fills the table below the struct verbs_context of sz bytes that ends with the context. */
static void exp_ops(struct ibv_context *c, size_t sz)
{
	uintptr_t *end = (uintptr_t *)((char *)c - (sz - sizeof *c));
	if (!knob("exp", 0))
		return;
	for (int i = 1; i <= EXP_TABLE / 8; i++)
		end[-i] = 0;
	end[-8 / 8] = (uintptr_t)knob("exp.sz", EXP_TABLE);
#define EXP_SLOT(dist, fn) \
	if (!knob("null." #fn, 0)) \
		end[-(dist) / 8] = (uintptr_t)fn
	EXP_SLOT(16, exp_create_qp);
	EXP_SLOT(32, exp_query_device);
	EXP_SLOT(48, query_dct);
	EXP_SLOT(56, destroy_dct);
	EXP_SLOT(64, create_dct);
	EXP_SLOT(152, exp_modify_qp);
	EXP_SLOT(200, exp_poll_cq);
	EXP_SLOT(208, exp_create_cq);
	EXP_SLOT(216, exp_query_values);
	EXP_SLOT(248, exp_post_send);
}
