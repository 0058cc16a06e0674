/* Completion counters; fakeverbs.c includes this file. */
#if OLD >= 65
struct ibv_comp_cntr { struct ibv_context *context; uint32_t handle; };
struct fcntr {
	struct ibv_comp_cntr pub;
	uint64_t n[2];
	struct { uint32_t qpn, ops; } at[8];
};
struct comp_cntr_caps { uint64_t max_value; uint32_t max_counters, ops; };
struct comp_cntr_init { uint32_t comp_mask, type, flags; };
struct comp_cntr_attach { uint32_t comp_mask, ops; };
#define CNTR(p) ((struct fcntr *)(p))

int _ibv_query_comp_cntr_caps(struct ibv_context *c, struct comp_cntr_caps *caps, size_t size)
{
	(void)c;
	FAIL_E;
	if (size != sizeof *caps)
		return EINVAL;
	*caps = (struct comp_cntr_caps){1ull << 48, 7, 0x3f};
	return 0;
}

struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *c, struct comp_cntr_init *a)
{
	FAIL_P;
	if (a->comp_mask || a->flags || a->type > 1)
		return fail(EINVAL);
	struct fcntr *o = calloc(1, sizeof *o);
	o->pub.context = c;
	fv_set("comp_cntr.type", a->type);
	live++;
	return &o->pub;
}

int ibv_destroy_comp_cntr(struct ibv_comp_cntr *o)
{
	FAIL_E;
	for (int i = 0; i < 8; i++) {
		struct fqp *qp = CNTR(o)->at[i].qpn < TABLE ? qps[CNTR(o)->at[i].qpn] : NULL;
		if (CNTR(o)->at[i].ops && qp && qp->alive)
			return EBUSY;
	}
	memset(o, 0xdb, sizeof(struct fcntr));
	free(o);
	live--;
	return 0;
}

int ibv_set_comp_cntr(struct ibv_comp_cntr *o, uint64_t v) { FAIL_E; CNTR(o)->n[0] = v; return 0; }
int ibv_set_err_comp_cntr(struct ibv_comp_cntr *o, uint64_t v) { FAIL_E; CNTR(o)->n[1] = v; return 0; }
int ibv_inc_comp_cntr(struct ibv_comp_cntr *o, uint64_t v) { FAIL_E; CNTR(o)->n[0] += v; return 0; }
int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *o, uint64_t v) { FAIL_E; CNTR(o)->n[1] += v; return 0; }
int ibv_read_comp_cntr(struct ibv_comp_cntr *o, uint64_t *v) { FAIL_E; *v = CNTR(o)->n[0]; return 0; }
int ibv_read_err_comp_cntr(struct ibv_comp_cntr *o, uint64_t *v) { FAIL_E; *v = CNTR(o)->n[1]; return 0; }

int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *o, struct comp_cntr_attach *a)
{
	FAIL_E;
	if (a->comp_mask || qp->state > 1)
		return EINVAL;
	if (a->ops & ~0x3fu)
		return ENOTSUP;
	int i = 0;
	for (; CNTR(o)->at[i].ops; i++)
		if (CNTR(o)->at[i].qpn == qp->qp_num && CNTR(o)->at[i].ops & a->ops)
			return EBUSY;
	CNTR(o)->at[i].qpn = qp->qp_num;
	CNTR(o)->at[i].ops = a->ops;
	return 0;
}
#endif
