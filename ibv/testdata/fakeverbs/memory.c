/* Memory beside that of ibv_reg_mr: of the device, of a dma-buf, on demand, of another process. */

struct fdm { struct ibv_dm pub; char *mem; size_t length; int refs; };
#define DM(d) ((struct fdm *)(d))
static struct fdm *dm_of[TABLE]; /* by the handle of a region */

static int memcpy_to_dm(struct ibv_dm *dm, uint64_t off, const void *from, size_t n)
{
	FAIL_E;
	if (off + n > DM(dm)->length)
		return EFAULT;
	if ((off | n) & 3)
		return EINVAL;
	memcpy(DM(dm)->mem + off, from, n);
	return 0;
}

static int memcpy_from_dm(void *to, struct ibv_dm *dm, uint64_t off, size_t n)
{
	FAIL_E;
	if (off + n > DM(dm)->length)
		return EFAULT;
	if ((off | n) & 3)
		return EINVAL;
	memcpy(to, DM(dm)->mem + off, n);
	return 0;
}

static struct ibv_dm *new_dm(struct ibv_context *c, size_t length)
{
	static atomic_uint handles;
	struct fdm *dm = calloc(1, sizeof *dm);
	dm->mem = calloc(1, length);
	dm->length = length;
	dm->pub.context = c;
	if (!knob("dm.steering", 0)) {
		dm->pub.memcpy_to_dm = memcpy_to_dm;
		dm->pub.memcpy_from_dm = memcpy_from_dm;
	}
	dm->pub.comp_mask = OLD >= 35;
	dm->pub.handle = 1000 + handles++;
	live++;
	return &dm->pub;
}

static struct ibv_dm *alloc_dm(struct ibv_context *c, struct ibv_alloc_dm_attr *a)
{
	FAIL_P;
	if (a->comp_mask || a->length > (size_t)knob("max_dm_size", 0))
		return fail(EINVAL);
	fv_set("dm.log_align", a->log_align_req);
	return new_dm(c, a->length);
}

static int free_dm(struct ibv_dm *pub)
{
	FAIL_E;
	if (DM(pub)->refs)
		return EBUSY;
	free(DM(pub)->mem);
	memset(pub, 0xdb, sizeof(struct fdm));
	free(pub);
	live--;
	return 0;
}

static struct ibv_mr *reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *pub, uint64_t off, size_t length, unsigned access)
{
	FAIL_P;
	struct fdm *dm = DM(pub);
	if (!(access & ACCESS_ZERO_BASED) || access & ~ACCESS_OF_DM || off > dm->length || length > dm->length - off)
		return fail(EINVAL);
	struct ibv_mr *mr = reg(pd, dm->mem + off, length, 0, access);
	if (mr) {
		mr->addr = NULL;
		dm_of[mr->handle] = dm;
		dm->refs++;
	}
	return mr;
}

static int advise_mr(struct ibv_pd *pd, int advice, uint32_t flags, struct ibv_sge *sge, uint32_t n)
{
	(void)pd;
	FAIL_E;
	fv_set("advise.advice", advice);
	fv_set("advise.flags", flags);
	fv_set("advise.n", n);
	long sum = 0;
	for (uint32_t i = 0; i < n; i++)
		sum += sge[i].length;
	fv_set("advise.bytes", sum);
	return 0;
}

#if OLD >= 34
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t off, size_t length, uint64_t iova, int fd, int access)
{
	FAIL_P;
	static char memory[4096];
	if (fcntl(fd, F_GETFD) < 0)
		return NULL;
	if (length > sizeof memory)
		return fail(EINVAL);
	fv_set("dmabuf.off", (long)off);
	return reg(pd, memory, length, iova, (uint32_t)access);
}
#endif

#if OLD >= 31
struct ibv_context *ibv_import_device(int fd)
{
	long e;
	if (failing("ibv_import_device", &e)) {
		if (knob("import.closes", 0))
			close(fd);
		errno = (int)e;
		return NULL;
	}
	fill_device(&devices[0], 0);
	struct ibv_context *c = ibv_open_device(&devices[0]);
	if (c)
		c->cmd_fd = fd;
	return c;
}

struct ibv_pd *ibv_import_pd(struct ibv_context *c, uint32_t handle)
{
	FAIL_P;
	struct fpd *pd = calloc(1, sizeof *pd);
	pd->pub.context = c;
	pd->pub.handle = handle;
	live++;
	return &pd->pub;
}

void ibv_unimport_pd(struct ibv_pd *pd)
{
	memset(pd, 0xdb, sizeof(struct fpd));
	free(pd);
	live--;
}

struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	FAIL_P;
	struct ibv_mr *mr = calloc(1, sizeof *mr);
	mr->context = pd->context;
	mr->pd = pd;
	mr->length = 4096;
	mr->handle = handle;
	mr->lkey = mr->rkey = KEY(handle, 0x5a);
	live++;
	return mr;
}

void ibv_unimport_mr(struct ibv_mr *mr)
{
	memset(mr, 0xdb, sizeof *mr);
	free(mr);
	live--;
}
#endif

#if OLD >= 35
struct ibv_dm *ibv_import_dm(struct ibv_context *c, uint32_t handle)
{
	FAIL_P;
	struct ibv_dm *dm = new_dm(c, 4096);
	dm->handle = handle;
	return dm;
}

void ibv_unimport_dm(struct ibv_dm *dm)
{
	free(DM(dm)->mem);
	memset(dm, 0xdb, sizeof(struct fdm));
	free(dm);
	live--;
}
#endif
