/* Memory windows, and MRs of newer releases. A window is a region of its own, on another. */

struct ibv_mw {
	struct ibv_context *context;
	struct ibv_pd *pd;
	uint32_t rkey, handle, type;
};
struct ibv_mw_bind_info { struct ibv_mr *mr; uint64_t addr, length; uint32_t access; };
struct bind_mw { struct ibv_mw *mw; uint32_t rkey; struct ibv_mw_bind_info info; };
struct ibv_mw_bind { uint64_t wr_id; uint32_t send_flags; struct ibv_mw_bind_info info; };
_Static_assert(sizeof(struct ibv_mw) == 32 && sizeof(struct bind_mw) == sizeof ((struct ibv_send_wr *)0)->bind, "mw");

#define WC_MW_BIND_ERR 6

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, int type)
{
	FAIL_P;
	char nothing;
	struct ibv_mr *mr = reg(pd, &nothing, 1, 0, 0);
	if (!mr)
		return NULL;
	struct ibv_mw *mw = calloc(1, sizeof *mw);
	*mw = (struct ibv_mw){pd->context, pd, mr->rkey, mr->handle, (uint32_t)type};
	regions[mw->handle].length = 0;
	free(mr);
	return mw;
}

static void unbind(struct region *r)
{
	if (r->under)
		r->under->windows--;
	r->under = NULL;
	r->length = 0;
	r->access = 0;
}

static int dealloc_mw(struct ibv_mw *mw)
{
	FAIL_E;
	struct region *r = &regions[mw->handle];
	unbind(r);
	atomic_store(&r->used, 0);
	memset(mw, 0xdb, sizeof *mw);
	free(mw);
	live--;
	return 0;
}

/* bind executes a bind. It finds the window by its key, as rdma_rxe does, and reads the MR's even if there is none. */
static int bind(struct bind_mw *b)
{
	struct region *r = &regions[b->mw->rkey >> 8], *m = &regions[b->info.mr->handle];
	uint64_t off = b->info.addr - m->iova;
	if ((b->mw->rkey & 0xff) != r->gen || (b->rkey ^ b->mw->rkey) >> 8 || (b->mw->type == 2 && b->info.length && r->under))
		return WC_MW_BIND_ERR;
	if (b->info.length && (off > m->length || b->info.length > m->length - off))
		return WC_MW_BIND_ERR;
	unbind(r);
	r->gen = b->rkey & 0xff;
	if (!b->info.length)
		return 0;
	r->under = m;
	m->windows++;
	r->addr = m->addr + off;
	r->iova = b->info.access & ACCESS_ZERO_BASED ? 0 : b->info.addr;
	r->length = b->info.length;
	r->access = b->info.access;
	return 0;
}

/* invalidate: keys of no window are let pass. */
static int invalidate(uint32_t rkey)
{
	struct region *r = &regions[rkey >> 8 < TABLE ? rkey >> 8 : 0];
	if (!r->under)
		return 0;
	if ((rkey & 0xff) != r->gen)
		return WC_MW_BIND_ERR;
	unbind(r);
	return 0;
}

static int bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	FAIL_E;
	uint32_t rkey = (mw->rkey & ~255u) | ((mw->rkey + 1) & 255);
	struct ibv_send_wr wr = {.wr_id = bind->wr_id, .opcode = OP_BIND_MW, .send_flags = bind->send_flags}, *bad;
	*(struct bind_mw *)wr.bind = (struct bind_mw){mw, rkey, bind->info};
	int e = post_send(qp, &wr, &bad);
	if (!e)
		mw->rkey = rkey;
	return e;
}

static struct ibv_mr *alloc_null_mr(struct ibv_pd *pd)
{
	FAIL_P;
	struct ibv_mr *mr = calloc(1, sizeof *mr);
	*mr = (struct ibv_mr){.context = pd->context, .pd = pd, .length = SIZE_MAX, .lkey = 0x700};
	live++;
	return mr;
}

#if OLD >= 59
struct ibv_dmah { struct ibv_context *context; };
struct ibv_dmah_init_attr { uint32_t comp_mask, cpu_id; uint8_t ph, tph_mem_type; };
struct ibv_mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask, iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	struct ibv_dmah *dmah;
};

struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *c, struct ibv_dmah_init_attr *a)
{
	FAIL_P;
	fv_set("dmah.mask", a->comp_mask);
	fv_set("dmah.cpu", a->cpu_id);
	fv_set("dmah.ph", a->ph);
	fv_set("dmah.mem", a->tph_mem_type);
	struct ibv_dmah *d = calloc(1, sizeof *d);
	d->context = c;
	live++;
	return d;
}

int ibv_dealloc_dmah(struct ibv_dmah *d)
{
	FAIL_E;
	memset(d, 0xdb, sizeof *d);
	free(d);
	live--;
	return 0;
}

struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *a)
{
	FAIL_P;
	fv_set("ex.mask", (long)a->comp_mask);
	fv_set("ex.fd", a->fd);
	fv_set("ex.offset", (long)a->fd_offset);
	if ((a->comp_mask & 16) && a->dmah->context != pd->context)
		return fail(EINVAL);
	return reg(pd, a->addr, a->length, a->iova, (uint32_t)a->access);
}
#endif
