/*
 * XRC domains, XRC and tag matching SRQs, and QPs that are opened. Part of
 * fakeverbs.c.
 */

enum { SRQT_BASIC, SRQT_XRC, SRQT_TM };
enum { SRQ_TYPE = 1, SRQ_PD = 2, SRQ_XRCD = 4, SRQ_CQ = 8, SRQ_TM = 16 };

struct fxrcd { struct ibv_xrcd pub; int users; };
#define XRCD(x) ((struct fxrcd *)(x))

static struct ibv_xrcd *open_xrcd(struct ibv_context *c, struct ibv_xrcd_init_attr *a)
{
	FAIL_P;
	if (a->comp_mask != 3)
		return fail(EINVAL);
	fv_set("xrcd.fd", a->fd);
	fv_set("xrcd.oflags", a->oflags);
	struct fxrcd *x = calloc(1, sizeof *x);
	x->pub.context = c;
	live++;
	return &x->pub;
}

static int close_xrcd(struct ibv_xrcd *x)
{
	FAIL_E;
	if (XRCD(x)->users)
		return EBUSY;
	memset(x, 0xdb, sizeof(struct fxrcd));
	free(x);
	live--;
	return 0;
}

static struct ibv_srq *create_srq_ex(struct ibv_context *c, struct ibv_srq_init_attr_ex *a)
{
	FAIL_P;
	uint32_t want = SRQ_TYPE | SRQ_PD | SRQ_CQ | (a->srq_type == SRQT_XRC ? SRQ_XRCD : SRQ_TM);
	if (a->comp_mask != want || !a->pd || a->pd->context != c || !a->cq || (a->srq_type == SRQT_XRC && !a->xrcd))
		return fail(EINVAL);
	struct ibv_srq_init_attr basic = {.attr = a->attr};
	struct ibv_srq *pub = ibv_create_srq(a->pd, &basic);
	if (!pub)
		return NULL;
	a->attr = basic.attr;
	struct fsrq *s = SRQ(pub);
	s->type = a->srq_type;
	s->cq = a->cq;
	s->xrcd = a->xrcd;
	fv_set("tm.tags", a->tm_cap.max_num_tags);
	fv_set("tm.ops", a->tm_cap.max_ops);
	CQ(s->cq)->users++;
	if (s->xrcd)
		XRCD(s->xrcd)->users++;
	pthread_mutex_lock(&table_lock);
	for (s->num = 1; s->num < TABLE && srqs[s->num]; s->num++)
		;
	srqs[s->num % TABLE] = s;
	pthread_mutex_unlock(&table_lock);
	return pub;
}

/* leave_srq undoes what create_srq_ex added. */
static void leave_srq(struct fsrq *s)
{
	if (!s->cq)
		return;
	CQ(s->cq)->users--;
	if (s->xrcd)
		XRCD(s->xrcd)->users--;
	pthread_mutex_lock(&table_lock);
	srqs[s->num] = NULL;
	pthread_mutex_unlock(&table_lock);
}

static int get_srq_num(struct ibv_srq *s, uint32_t *num)
{
	FAIL_E;
	if (!SRQ(s)->cq)
		return EOPNOTSUPP;
	*num = SRQ(s)->num;
	return 0;
}

static struct ibv_qp *create_xrc_recv(struct ibv_context *c, struct ibv_qp_init_attr_ex *a)
{
	if (a->comp_mask != 2 || !a->xrcd || a->base.send_cq || a->base.recv_cq || a->base.srq)
		return fail(EINVAL);
	struct ibv_pd pd = {.context = c};
	struct ibv_qp_init_attr basic = {.qp_type = QPT_XRC_RECV};
	struct ibv_qp *qp = ibv_create_qp(&pd, &basic);
	if (qp) {
		qp->pd = NULL;
		QP(qp)->xrcd = a->xrcd;
		XRCD(a->xrcd)->users++;
	}
	return qp;
}

/* An opened QP is one of its own here; only its number is that of the other. */
static struct ibv_qp *open_qp(struct ibv_context *c, struct ibv_qp_open_attr *a)
{
	FAIL_P;
	if (a->comp_mask != 11 || a->qp_type != QPT_XRC_RECV || a->qp_num >= TABLE || !qps[a->qp_num] ||
	    !qps[a->qp_num]->alive || qps[a->qp_num]->xrcd != a->xrcd)
		return fail(EINVAL);
	struct ibv_qp_init_attr_ex init = {.base.qp_type = QPT_XRC_RECV, .xrcd = a->xrcd};
	init.comp_mask = 2;
	struct ibv_qp *qp = create_xrc_recv(c, &init);
	if (qp) {
		qp->qp_num = a->qp_num;
		qp->state = 7; /* unknown */
	}
	return qp;
}

/* Handles are reused as soon as they are deleted, or matched: the knob tm.match matches a tag at the next sync. */
static int post_srq_ops(struct ibv_srq *s, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad)
{
	static uint64_t recv_ids[64];
	static char used[64];
	if (SRQ(s)->type != SRQT_TM)
		return EINVAL;
	for (long k = 1; wr; wr = wr->next, k++) {
		if (hot.post_at == k) {
			*bad = wr;
			return (int)hot.post_errno;
		}
		struct ibv_wc wc = {.wr_id = wr->wr_id, .opcode = 130 + wr->opcode};
		uint32_t h = wr->tm.handle;
		switch (wr->opcode) {
		case 0:
			if (wr->tm.num_sge < 0 || wr->tm.num_sge > 1) {
				*bad = wr;
				return EINVAL;
			}
			for (h = 0; used[h]; h++)
				;
			used[h] = 1;
			recv_ids[h] = wr->tm.recv_wr_id;
			wr->tm.handle = h;
			fv_set("tm.size", wr->tm.num_sge ? (long)wr->tm.sg_list->length : -1);
			fv_set("tm.tag", (long)wr->tm.tag);
			fv_set("tm.mask", (long)wr->tm.mask);
			break;
		case 1:
			if (h >= 64 || !used[h])
				wc.status = 22;
			else
				used[h] = 0;
			fv_set("tm.deleted", h);
			break;
		default:
			fv_set("tm.unexpected", wr->tm.unexpected_cnt);
		}
		fv_set("tm.flags", wr->flags);
		if (wr->flags & 1)
			push(SRQ(s)->cq, &wc, NULL, 0, 0);
		long m = knob("tm.match", -1);
		if (wr->opcode == 2 && m >= 0) {
			struct ibv_wc match = {.wr_id = recv_ids[m], .opcode = 133, .status = (uint32_t)knob("tm.status", 0),
				.wc_flags = (uint32_t)knob("tm.wc_flags", 96)};
			if (match.wc_flags & 64)
				used[m] = 0;
			push(SRQ(s)->cq, &match, NULL, 0, 0);
		}
	}
	return 0;
}

/* Small calls on a QP. */

struct ibv_ece { uint32_t vendor_id, options, comp_mask; };
struct ibv_qp_rate_limit_attr { uint32_t rate_limit, max_burst_sz; uint16_t typical_pkt_sz; uint32_t comp_mask; };

#if OLD >= 31
int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *e)
{
	(void)qp;
	FAIL_E;
	*e = (struct ibv_ece){0x2c9, (uint32_t)knob("ece.options", 5), 0};
	return 0;
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *e)
{
	(void)qp;
	FAIL_E;
	if (e->vendor_id != 0x2c9 || e->comp_mask)
		return EINVAL;
	fv_set("ece.options", e->options);
	return 0;
}
#endif

static int modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *a)
{
	(void)qp;
	FAIL_E;
	fv_set("rate.limit", a->rate_limit);
	fv_set("rate.burst", a->max_burst_sz);
	fv_set("rate.packet", a->typical_pkt_sz);
	return a->comp_mask ? EINVAL : 0;
}

#if OLD >= 36
int ibv_query_qp_data_in_order(struct ibv_qp *qp, uint32_t op, uint32_t flags)
{
	(void)qp;
	return (int)knob(flags ? "order.caps" : "order.whole", 0) & (op == OP_WRITE ? -1 : 1);
}

int ibv_is_fork_initialized(void) { return (int)knob("fork", 2); }
#endif

int ibv_resolve_eth_l2_from_gid(struct ibv_context *c, struct ibv_ah_attr *a, uint8_t mac[6], uint16_t *vid)
{
	(void)c;
	long e;
	while (knob("resolve.hold", 0)) {
		fv_set("resolve.inside", 1);
		usleep(100);
	}
	if (failing(__func__, &e))
		return (int)-e;
	for (int i = 0; i < 6; i++)
		mac[i] = ((uint8_t *)a->dgid)[10 + i];
	*vid = (uint16_t)knob("vid", 0xffff);
	return 0;
}
