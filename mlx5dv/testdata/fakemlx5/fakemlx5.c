/* A libmlx5 without a device, on the fake libibverbs: the calls of DevX and their like, with the rules that a binding
 * can break. What breaks one ends the process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MUST(x) do { if (!(x)) { fprintf(stderr, "fakemlx5: %s: not so: %s\n", __func__, #x); abort(); } } while (0)

enum kind { OBJ = 0x51a7e001, UMEM, UAR, EVENTS, VAR, NODE, LEAF, PP, MATCHER, ANCHOR, DOMAIN, TABLE, DMATCHER, RULE,
	ACTION, ANSWERS, MKEY, DEK };

static int live;        /* objects that were not destroyed */
static int busy;        /* how often destroying an object or a umem is refused */
static void *ctx;       /* of all objects */
static uint64_t args[4]; /* of the last call that has no answer */
static int slow;        /* microseconds that a call takes */
static volatile int inside; /* calls that take them */

void fake_reset(void) { ctx = NULL; }
void fake_slow(int us) { slow = us; }
int fake_inside(void) { return inside; }

static void take_time(void)
{
	if (!slow)
		return;
	inside = 1;
	usleep(slow);
	inside = 0;
}
int fake_live(void) { return live; }
void fake_busy(int n) { busy = n; }
uint64_t fake_arg(int i) { return args[i]; }

static void of_context(void *c)
{
	MUST(c);
	take_time();
	if (!ctx)
		ctx = c;
	MUST(c == ctx);
}

/* An object of libibverbs begins with its context. */
static void of_verbs(void *obj) { MUST(obj); of_context(*(void **)obj); }

/* In front of each object stands what it is. */
struct head { uint32_t kind, pad; };

static void *make(enum kind k, size_t n)
{
	struct head *h = calloc(1, sizeof *h + n);
	h->kind = k;
	live++;
	return h + 1;
}

static void is(void *obj, enum kind k) { MUST(obj && ((struct head *)obj - 1)->kind == (uint32_t)k); }

static int drop(void *obj, enum kind k)
{
	is(obj, k);
	if (busy && (k == OBJ || k == UMEM)) {
		busy--;
		return EBUSY;
	}
	((struct head *)obj - 1)->kind = 0; /* and leaks, so that a second drop is seen */
	live--;
	return 0;
}

bool mlx5dv_is_supported(void *device) { MUST(device); take_time(); return true; }

/* A libmlx5 from before v29 opens devices with DevX on request only. */
static int on_request;  /* this is such a library */
static int no_devx;     /* errno with which the kernel refuses DevX */
static int requests;
static void *with_devx; /* the last context that was opened on request */

void fake_devx_on_request(int on, int refusal) { on_request = on, no_devx = refusal, requests = 0, with_devx = NULL; }
int fake_devx_requests(void) { return requests; }

struct context_attr { uint32_t flags; uint64_t comp_mask; void *fds; };

void *mlx5dv_open_device(void *device, struct context_attr *a)
{
	MUST(device && a->flags == 1 && !a->comp_mask && !a->fds);
	requests++;
	if ((errno = no_devx))
		return NULL;
	void *verbs = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
	MUST(verbs);
	void *(*open_device)(void *) = (void *(*)(void *))dlsym(verbs, "ibv_open_device");
	return with_devx = open_device(device);
}

/* What the kernel answers to commands on a context without DevX. */
static int without_devx(void *c) { return on_request && c != with_devx ? EINVAL : 0; }

/* Of the objects to view, only an address handle is here. */
struct view { void *in, **out; };

int mlx5dv_init_obj(struct view obj[8], uint64_t types)
{
	static uint64_t av[6];
	if (types != 32)
		return EOPNOTSUPP;
	of_verbs(obj[5].in);
	obj[5].out[0] = av, obj[5].out[1] = NULL;
	return 0;
}

/* 0x80d answers with what it was given behind the header; 0x100 is refused by the device, 0x101 by the kernel. */
static int command(const unsigned char *in, size_t inlen, unsigned char *out, size_t outlen)
{
	MUST(in && out && inlen >= 16 && outlen >= 16);
	for (size_t i = 0; i < outlen; i++)
		MUST(!out[i]);
	switch (in[0] << 8 | in[1]) {
	case 0x100:
		memcpy(out, (unsigned char[]){ 3, 0, 0, 0, 0x11, 0x22, 0x33, 0x44 }, 8);
		return EREMOTEIO;
	case 0x101:
		return EINVAL;
	}
	memcpy(out + 16, in + 16, (inlen < outlen ? inlen : outlen) - 16);
	return 0;
}

int mlx5dv_devx_general_cmd(void *c, const void *in, size_t inlen, void *out, size_t outlen)
{
	of_context(c);
	return without_devx(c) ? EINVAL : command(in, inlen, out, outlen);
}

void *mlx5dv_devx_obj_create(void *c, const void *in, size_t inlen, void *out, size_t outlen)
{
	of_context(c);
	if ((errno = without_devx(c)) || (errno = command(in, inlen, out, outlen)))
		return NULL;
	return make(OBJ, 8);
}

#define ON_OBJECT(name, check) \
	int name(void *obj, const void *in, size_t inlen, void *out, size_t outlen) \
	{ \
		check; \
		return command(in, inlen, out, outlen); \
	}
ON_OBJECT(mlx5dv_devx_obj_query, is(obj, OBJ))
ON_OBJECT(mlx5dv_devx_obj_modify, is(obj, OBJ))
#define ON_VERBS(name, n) int name(void *obj, const void *in, size_t inlen, void *out, size_t outlen) \
	{ \
		of_verbs(obj); \
		args[0] = n; \
		return command(in, inlen, out, outlen); \
	}
ON_VERBS(mlx5dv_devx_qp_query, 1)
ON_VERBS(mlx5dv_devx_qp_modify, 2)
ON_VERBS(mlx5dv_devx_cq_query, 3)
ON_VERBS(mlx5dv_devx_cq_modify, 4)
ON_VERBS(mlx5dv_devx_srq_query, 5)
ON_VERBS(mlx5dv_devx_srq_modify, 6)
ON_VERBS(mlx5dv_devx_wq_query, 7)
ON_VERBS(mlx5dv_devx_wq_modify, 8)
ON_VERBS(mlx5dv_devx_ind_tbl_query, 9)
ON_VERBS(mlx5dv_devx_ind_tbl_modify, 10)

int mlx5dv_devx_obj_destroy(void *obj) { return drop(obj, OBJ); }

static uint32_t *umem(void *c, void *addr, size_t size, uint32_t access)
{
	of_context(c);
	MUST(size);
	if ((errno = without_devx(c)))
		return NULL;
	args[0] = (uint64_t)addr, args[1] = size, args[2] = access;
	uint32_t *u = make(UMEM, 4);
	*u = 77;
	return u;
}

void *mlx5dv_devx_umem_reg(void *c, void *addr, size_t size, uint32_t access)
{
	args[3] = 0;
	return umem(c, addr, size, access);
}

struct umem_in { void *addr; size_t size; uint32_t access; uint64_t pgsz_bitmap, comp_mask; int dmabuf_fd; };

void *mlx5dv_devx_umem_reg_ex(void *c, struct umem_in *in)
{
	MUST(in->pgsz_bitmap && in->comp_mask <= 1);
	args[3] = in->comp_mask ? (uint64_t)in->dmabuf_fd : in->pgsz_bitmap;
	return umem(c, in->addr, in->size, in->access);
}

int mlx5dv_devx_umem_dereg(void *u) { return drop(u, UMEM); }

struct uar { void *reg_addr, *base_addr; uint32_t page_id; long mmap_off; uint64_t comp_mask; };

struct uar *mlx5dv_devx_alloc_uar(void *c, uint32_t flags)
{
	static char page[4096];
	of_context(c);
	if (flags > 1) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	struct uar *u = make(UAR, sizeof *u);
	*u = (struct uar){ page + 0x800, page, 9 + flags, 0x90000, 0 };
	return u;
}

void mlx5dv_devx_free_uar(void *u) { drop(u, UAR); }

int mlx5dv_devx_query_eqn(void *c, uint32_t vector, uint32_t *eqn)
{
	of_context(c);
	if (without_devx(c))
		return EINVAL;
	*eqn = vector + 40;
	return 0;
}

struct events { int fd, write; };

struct events *mlx5dv_devx_create_event_channel(void *c, int flags)
{
	of_context(c);
	MUST(flags == 0 || flags == 1);
	struct events *e = make(EVENTS, sizeof *e);
	args[0] = flags;
	MUST(!pipe((int *)e));
	return e;
}

void mlx5dv_devx_destroy_event_channel(struct events *e)
{
	close(e->fd), close(e->write);
	drop(e, EVENTS);
}

/* Each type that is subscribed to happens at once: its entry is 64 times the type. */
int mlx5dv_devx_subscribe_devx_event(struct events *e, void *obj, uint16_t size, uint16_t types[], uint64_t cookie)
{
	is(e, EVENTS);
	if (obj)
		is(obj, OBJ);
	MUST(size && size % 2 == 0);
	for (int i = 0; i < size / 2; i++) {
		unsigned char rec[72];
		memcpy(rec, &cookie, 8);
		memset(rec + 8, types[i], 64);
		size_t n = args[0] ? 8 : 72;
		if (types[i] == 0x99)
			return EINVAL;
		MUST(write(e->write, rec, n) == (ssize_t)n);
	}
	return 0;
}

int mlx5dv_devx_subscribe_devx_event_fd(struct events *e, int fd, void *obj, uint16_t type)
{
	is(e, EVENTS);
	if (obj)
		is(obj, OBJ);
	args[1] = fd, args[2] = type;
	return 0;
}

ssize_t mlx5dv_devx_get_event(struct events *e, void *rec, size_t n)
{
	is(e, EVENTS);
	MUST(n == 8 || n == 72);
	return read(e->fd, rec, n);
}

#ifndef NO_ASYNC
/* Each query is carried out at once. Its answer is a packet. */
struct events *mlx5dv_devx_create_cmd_comp(void *c)
{
	of_context(c);
	struct events *e = make(ANSWERS, sizeof *e);
	MUST(!pipe2((int *)e, O_DIRECT));
	return e;
}

void mlx5dv_devx_destroy_cmd_comp(struct events *e)
{
	close(e->fd), close(e->write);
	drop(e, ANSWERS);
}

int mlx5dv_devx_obj_query_async(void *obj, const void *in, size_t inlen, size_t outlen, uint64_t id, struct events *e)
{
	unsigned char answer[8 + 1024] = { 0 };
	is(obj, OBJ), is(e, ANSWERS);
	MUST(outlen <= 1024);
	int err = command(in, inlen, answer + 8, outlen);
	if (err == EINVAL)
		return err;
	memcpy(answer, &id, 8);
	MUST(write(e->write, answer, 8 + outlen) == (ssize_t)(8 + outlen));
	return 0;
}

int mlx5dv_devx_get_async_cmd_comp(struct events *e, void *resp, size_t n)
{
	is(e, ANSWERS);
	MUST(n >= 8);
	return read(e->fd, resp, n) < 0 ? errno : 0;
}
#endif

int mlx5dv_query_qp_lag_port(void *qp, uint8_t *port, uint8_t *active)
{
	of_verbs(qp);
	*port = 1, *active = 2;
	return 0;
}

int mlx5dv_modify_qp_lag_port(void *qp, uint8_t port)
{
	of_verbs(qp);
	args[0] = port;
	return port > 2 ? EOPNOTSUPP : 0;
}

int mlx5dv_modify_qp_udp_sport(void *qp, uint16_t port)
{
	of_verbs(qp);
	args[0] = port;
	return port ? 0 : EOPNOTSUPP;
}

int mlx5dv_map_ah_to_qp(void *ah, uint32_t qpn)
{
	of_verbs(ah);
	args[0] = qpn;
	return qpn ? 0 : EOPNOTSUPP;
}

static uint32_t reserved = 0x1000;

int mlx5dv_reserved_qpn_alloc(void *c, uint32_t *qpn)
{
	of_context(c);
	live++;
	*qpn = reserved++;
	return 0;
}

int mlx5dv_reserved_qpn_dealloc(void *c, uint32_t qpn)
{
	of_context(c);
	MUST(qpn >= 0x1000 && qpn < reserved);
	live--;
	return 0;
}

struct dm_attr { int type; uint64_t comp_mask; };

/* The memory is libibverbs': its alloc_dm is this far in front of a context. */
void *mlx5dv_alloc_dm(void *c, void *attr, struct dm_attr *dv)
{
	of_context(c);
	MUST(dv->type >= 1 && dv->type <= 3 && !dv->comp_mask);
	args[0] = dv->type;
	return (*(void *(**)(void *, void *))((char *)c - 256))(c, attr);
}

/* Operation 5 is the only one. */
void *mlx5dv_dm_map_op_addr(void *dm, uint8_t op)
{
	static char page[4096];
	of_verbs(dm);
	if (op != 5) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	page[0] = op;
	return page;
}

struct var { uint32_t page_id, length; long mmap_off; uint64_t comp_mask; };

struct var *mlx5dv_alloc_var(void *c, uint32_t flags)
{
	of_context(c);
	MUST(!flags);
	struct var *v = make(VAR, sizeof *v);
	*v = (struct var){ 3, 4096, 0x70000, 0 };
	return v;
}

void mlx5dv_free_var(void *v) { drop(v, VAR); }

struct allocators { void *(*alloc)(size_t, void *); void (*free)(void *, void *); void *data; };

int mlx5dv_set_context_attr(void *c, int type, struct allocators *a)
{
	of_context(c);
	MUST(type == 1 && a->alloc && a->free);
	args[0] = (uint64_t)a->data;
	return 0;
}

int mlx5dv_get_data_direct_sysfs_path(void *c, char *buf, size_t n)
{
	of_context(c);
	MUST(n >= 64);
	strcpy(buf, "/devices/pci0000:00/0000:00:05.0");
	return 0;
}

/* The scheduler, and entries of the table of rates. args: parent, flags, share, rate. */
struct sched_attr { void *parent; uint32_t flags, share, rate; uint64_t comp_mask; };

static int lacking; /* features that the device lacks: errno of a call */
void fake_lacking(int e) { lacking = e; }

static int sched(const struct sched_attr *a, enum kind k)
{
	MUST(a && !a->comp_mask && a->flags <= 3);
	if (a->parent)
		is(a->parent, NODE);
	MUST(k == LEAF ? !!a->parent : a->parent || !a->flags);
	args[0] = (uint64_t)a->parent, args[1] = a->flags, args[2] = a->share, args[3] = a->rate;
	return lacking;
}

void *mlx5dv_sched_node_create(void *c, const struct sched_attr *a)
{
	of_context(c);
	return (errno = sched(a, NODE)) ? NULL : make(NODE, 8);
}

void *mlx5dv_sched_leaf_create(void *c, const struct sched_attr *a)
{
	of_context(c);
	return (errno = sched(a, LEAF)) ? NULL : make(LEAF, 8);
}

int mlx5dv_sched_node_modify(void *n, const struct sched_attr *a) { is(n, NODE); return sched(a, NODE); }
int mlx5dv_sched_leaf_modify(void *n, const struct sched_attr *a) { is(n, LEAF); return sched(a, LEAF); }
int mlx5dv_sched_node_destroy(void *n) { return lacking ? lacking : drop(n, NODE); }
int mlx5dv_sched_leaf_destroy(void *n) { return lacking ? lacking : drop(n, LEAF); }

int mlx5dv_modify_qp_sched_elem(void *qp, void *requestor, void *responder)
{
	of_verbs(qp);
	if (requestor)
		is(requestor, LEAF);
	if (responder)
		is(responder, LEAF);
	args[0] = (uint64_t)requestor, args[1] = (uint64_t)responder;
	return lacking;
}

uint16_t *mlx5dv_pp_alloc(void *c, size_t n, const void *context, uint32_t flags)
{
	of_context(c);
	MUST(n && context && flags <= 1);
	args[0] = n, args[1] = *(const unsigned char *)context, args[2] = flags;
	if ((errno = lacking))
		return NULL;
	uint16_t *p = make(PP, 8);
	*p = 0x1234;
	return p;
}

void mlx5dv_pp_free(uint16_t *p) { drop(p, PP); }

#include "mkey.c"
#include "post.c"
#include "steering.c"
