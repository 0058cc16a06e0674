/* Work requests of mlx5's own: struct mlx5dv_qp_ex. What a session was told is kept as text; nothing is carried out. */

struct qp { void *context, *objects[5]; uint32_t n[4]; pthread_mutex_t mutex; pthread_cond_t cond; uint32_t events; };
struct qp_ex { struct qp base; uint64_t comp_mask, wr_id; uint32_t wr_flags; };
struct sge { uint64_t addr; uint32_t length, lkey; };
struct interleaved { uint64_t addr; uint32_t bytes, skip, lkey; };

struct mqp {
	uint64_t comp_mask;
	void *set_dc_addr, *mr_interleaved, *mr_list, *mkey_configure, *set_access, *set_list, *set_interleaved, *set_sig,
		*raw_wqe, *set_dc_addr_stream, *memcpy, *set_crypto;
	struct qp_ex *ex;
	int setters; /* that an mkey_configure announced and that did not come */
};

static char said[4096];

/* What was said since the last call. */
const char *fake_said(void)
{
	static char out[sizeof said];
	strcpy(out, said);
	said[0] = 0;
	return out;
}

__attribute__((format(printf, 1, 2))) static void say(const char *f, ...)
{
	va_list a;
	va_start(a, f);
	size_t n = strlen(said);
	vsnprintf(said + n, sizeof said - n, f, a);
	va_end(a);
}

static void begin_wr(struct mqp *q, const char *name)
{
	MUST(!q->setters);
	say("\n%llu/%x %s", (unsigned long long)q->ex->wr_id, q->ex->wr_flags, name);
}

static void setter(struct mqp *q, const char *name)
{
	MUST(q->setters-- > 0);
	say(" %s", name);
}

static void key(struct mkey *k) { is(k, MKEY); say(" %x", k->lkey); }

static void list(uint32_t n, struct sge *s)
{
	for (; n--; s++)
		say(" [%llx %u %x]", (unsigned long long)s->addr, s->length, s->lkey);
}

static void blocks(uint32_t repeat, uint32_t n, struct interleaved *b)
{
	say(" %u times", repeat);
	for (; n--; b++)
		say(" [%llx %u %u %x]", (unsigned long long)b->addr, b->bytes, b->skip, b->lkey);
}

static void wr_mr_interleaved(struct mqp *q, struct mkey *k, uint32_t access, uint32_t repeat, uint16_t n,
	struct interleaved *b)
{
	begin_wr(q, "interleaved"), key(k), say(" %x", access), blocks(repeat, n, b);
}

static void wr_mr_list(struct mqp *q, struct mkey *k, uint32_t access, uint16_t n, struct sge *s)
{
	begin_wr(q, "list"), key(k), say(" %x", access), list(n, s);
}

static void wr_mkey_configure(struct mqp *q, struct mkey *k, uint8_t setters, uint64_t *conf)
{
	MUST(!(*conf >> 32)); /* flags; nothing of what may come behind them */
	begin_wr(q, "configure"), key(k), say(" %x", (uint32_t)*conf);
	q->setters = setters;
}

static void wr_set_access(struct mqp *q, uint32_t access) { setter(q, "access"), say(" %x", access); }
static void wr_set_list(struct mqp *q, uint16_t n, struct sge *s) { setter(q, "list"), list(n, s); }
static void wr_set_interleaved(struct mqp *q, uint32_t repeat, uint16_t n, struct interleaved *b)
{
	setter(q, "interleaved"), blocks(repeat, n, b);
}

static void wr_raw_wqe(struct mqp *q, const unsigned char *w) { begin_wr(q, "raw"), say(" %02x %02x", w[0], w[15]); }

static void wr_memcpy(struct mqp *q, uint32_t to_key, uint64_t to, uint32_t from_key, uint64_t from, size_t n)
{
	begin_wr(q, "memcpy");
	say(" %x:%llx %x:%llx %zu", to_key, (unsigned long long)to, from_key, (unsigned long long)from, n);
}

struct mqp *mlx5dv_qp_ex_from_ibv_qp_ex(struct qp_ex *ex)
{
	static struct mqp q;
	q = (struct mqp){ .mr_interleaved = wr_mr_interleaved, .mr_list = wr_mr_list, .mkey_configure = wr_mkey_configure,
		.set_access = wr_set_access, .set_list = wr_set_list, .set_interleaved = wr_set_interleaved,
		.raw_wqe = wr_raw_wqe, .memcpy = wr_memcpy, .ex = ex };
	of_context(ex->base.context);
	return &q;
}

struct qp_init { uint64_t comp_mask; uint32_t flags, pad; uint64_t dc[2], ops; };

/* The rest of the QP is the fake libibverbs's, with the functions of ibv_wr_*. */
void *mlx5dv_create_qp(void *c, void *attr, struct qp_init *i)
{
	of_context(c);
	MUST(!(i->comp_mask & ~4ull) && i->ops < 1 << 5); /* operations alone */
	void *(*create)(void *, void *) = ((void *(**)(void *, void *))c)[-56 / 8]; /* create_qp_ex */
	return create(c, attr);
}
