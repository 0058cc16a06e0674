/*
 * WQs, indirection tables and QPs that spread frames among WQs. What such a QP
 * was made of lies in fv_rss for tests. Part of fakeverbs.c.
 */

enum { WQS_RESET, WQS_RDY, WQS_ERR };
enum { WQ_STATE = 1, WQ_CURR_STATE = 2, WQ_FLAGS = 4 };

struct ibv_rwq_ind_table { struct ibv_context *context; int ind_tbl_handle, ind_tbl_num; uint32_t comp_mask; };
struct fwq_table { struct ibv_rwq_ind_table pub; uint32_t n; int users; struct fwq *wqs[]; };

uint8_t fv_rss[8 + 8 + 256]; /* function, key length, fields at 8, key at 16 */

static int post_wq_recv(struct ibv_wq *w, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return rq_post(&WQ(w)->rq, wr, bad);
}

static struct ibv_wq *create_wq(struct ibv_context *c, struct ibv_wq_init_attr *a)
{
	FAIL_P;
	if (knob("overflow", 0))
		a->max_wr = a->max_sge = 1;
	if (a->wq_type || !a->pd || a->pd->context != c || !a->cq || a->comp_mask > 1 || a->max_wr > 4096 || !a->max_wr ||
	    a->max_sge > MAX_SGE || a->wq_context)
		return fail(EINVAL);
	fv_set("wq.flags", a->comp_mask ? a->create_flags : 0);
	struct fwq *w = calloc(1, sizeof *w);
	w->pub.context = c;
	w->pub.pd = a->pd;
	w->pub.cq = a->cq;
	w->pub.wq_num = (uint32_t)knob("wq.num", 77);
	w->pub.post_recv = post_wq_recv;
	rq_init(&w->rq, a->max_wr, a->max_sge);
	CQ(a->cq)->users++;
	live++;
	return &w->pub;
}

static int modify_wq(struct ibv_wq *pub, struct ibv_wq_attr *a)
{
	FAIL_E;
	struct fwq *w = WQ(pub);
	fv_set("wq.attr_mask", a->attr_mask);
	fv_set("wq.curr_state", a->curr_wq_state);
	fv_set("wq.new_flags", a->flags);
	fv_set("wq.flags_mask", a->flags_mask);
	if (!(a->attr_mask & WQ_STATE))
		return 0;
	if ((pub->state == WQS_RESET && a->wq_state == WQS_ERR) || (pub->state == WQS_ERR && a->wq_state == WQS_RDY))
		return EINVAL;
	pub->state = a->wq_state;
	take(&w->rq.lock);
	for (; w->rq.head != w->rq.tail && pub->state != WQS_RDY; w->rq.head++) {
		struct ibv_wc wc = {.wr_id = w->rq.ring[w->rq.head % w->rq.cap].wr_id, .status = WC_WR_FLUSH_ERR};
		if (pub->state == WQS_ERR)
			push(pub->cq, &wc, NULL, 0, 0);
	}
	drop(&w->rq.lock);
	if (pub->state == WQS_ERR)
		fv_async(pub->context, EV_WQ_FATAL, pub);
	return 0;
}

static int destroy_wq(struct ibv_wq *pub)
{
	FAIL_E;
	struct fwq *w = WQ(pub);
	if (w->users)
		return EBUSY;
	pthread_mutex_lock(&pub->mutex);
	while (pub->events_completed != w->async_reported)
		pthread_cond_wait(&pub->cond, &pub->mutex);
	pthread_mutex_unlock(&pub->mutex);
	CQ(pub->cq)->users--;
	free(w->rq.ring);
	memset(w, 0xdb, sizeof *w);
	free(w);
	live--;
	return 0;
}

static struct ibv_rwq_ind_table *create_rwq_ind_table(struct ibv_context *c, struct ibv_rwq_ind_table_init_attr *a)
{
	FAIL_P;
	if (a->comp_mask || a->log_ind_tbl_size > 10)
		return fail(EINVAL);
	uint32_t n = 1u << a->log_ind_tbl_size;
	struct fwq_table *t = calloc(1, sizeof *t + n * sizeof *t->wqs);
	t->pub.context = c;
	t->n = n;
	for (uint32_t i = 0; i < n; i++) {
		t->wqs[i] = WQ(a->ind_tbl[i]);
		t->wqs[i]->users++;
	}
	live++;
	return &t->pub;
}

static int destroy_rwq_ind_table(struct ibv_rwq_ind_table *pub)
{
	FAIL_E;
	struct fwq_table *t = (struct fwq_table *)pub;
	if (t->users)
		return EBUSY;
	for (uint32_t i = 0; i < t->n; i++)
		t->wqs[i]->users--;
	memset(t, 0xdb, sizeof *t);
	free(t);
	live--;
	return 0;
}

static struct ibv_qp *create_rss(struct ibv_qp_init_attr_ex *a)
{
	struct { uint8_t function, key_len; uint8_t *key; uint64_t fields; } conf;
	memcpy(&conf, a->rx_hash_conf, sizeof conf);
	if (!a->rwq_ind_tbl || a->base.qp_type != QPT_RAW || a->base.send_cq || a->base.recv_cq || a->base.srq ||
	    a->base.cap.max_send_wr || a->base.cap.max_recv_wr || conf.key_len == knob("rss.bad_key", 0))
		return fail(EINVAL);
	memset(fv_rss, 0, sizeof fv_rss);
	fv_rss[0] = conf.function;
	fv_rss[1] = conf.key_len;
	memcpy(fv_rss + 8, &conf.fields, 8);
	memcpy(fv_rss + 16, conf.key, conf.key_len);
	/* without queues, as one of these is */
	struct ibv_qp_init_attr basic = {.qp_type = QPT_XRC_RECV};
	struct ibv_qp *qp = ibv_create_qp(a->pd, &basic);
	if (qp) {
		qp->qp_type = QPT_RAW;
		QP(qp)->table = a->rwq_ind_tbl;
		QP(qp)->table->users++;
	}
	return qp;
}

static void wq_ops(uintptr_t *end, size_t size, size_t context)
{
	if (DIST_DESTROY_RWQ_IND_TABLE + context > size || knob("null.wq", 0))
		return;
	end[-DIST_CREATE_WQ / 8] = (uintptr_t)create_wq;
	end[-DIST_MODIFY_WQ / 8] = (uintptr_t)modify_wq;
	end[-DIST_DESTROY_WQ / 8] = (uintptr_t)destroy_wq;
	end[-DIST_CREATE_RWQ_IND_TABLE / 8] = (uintptr_t)create_rwq_ind_table;
	end[-DIST_DESTROY_RWQ_IND_TABLE / 8] = (uintptr_t)destroy_rwq_ind_table;
}
