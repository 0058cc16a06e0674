/*
 * A libibverbs.so.1 without a device: all queue pairs of the process are
 * connected to each other by memcpy. It keeps the rules of the real one that a
 * binding can break: events must be acknowledged before an object is destroyed,
 * queues have their sizes, keys their bounds, destroyed objects are poisoned.
 *
 * fv_set("fail.FUNCTION", e) makes a function fail with e, in its own way of
 * failing; other names are below. FAKEVERBS="name=value,name=value" sets the
 * same at the start.
 *
 * Variants for tests of other libraries: -DOLD=15 and -DOLD=25 leave out what
 * those releases of rdma-core did not have; -DSPARSE leaves out functions that
 * every release has, with -DWITH_NAMES fewer of them. -DPROVIDER_DIR="FOLDER" is
 * where it would have its drivers.
 */
#define _GNU_SOURCE
#include "fakeverbs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef OLD
#define OLD 44
#endif

#ifdef PROVIDER_DIR
/* By these the real library finds its drivers, and others find out where it looks. */
const char fv_providers[] = PROVIDER_DIR "/lib%s-rdmav34.so";
const char fv_config[] = PROVIDER_DIR "/libibverbs.d";
#endif

#define AT(type, field, off) _Static_assert(offsetof(struct type, field) == (off), #type "." #field)
AT(ibv_device, ibdev_path, 408);
AT(ibv_context, async_fd, 268);
AT(ibv_context, mutex, 280);
AT(ibv_mr, rkey, 40);
AT(ibv_comp_channel, fd, 8);
AT(ibv_cq, cqe, 28);
AT(ibv_cq, mutex, 32);
AT(ibv_modify_cq_attr, moderate.cq_period, 6);
AT(ibv_srq, mutex, 32);
AT(ibv_qp, qp_num, 52);
AT(ibv_qp, state, 56);
AT(ibv_qp, mutex, 64);
AT(ibv_qp_init_attr_ex, comp_mask, 60);
AT(ibv_qp_init_attr_ex, send_ops_flags, 128);
AT(qp_ex, wr_start, 160);
AT(qp_ex, wr_flush, 192);
AT(ibv_send_wr, wr, 40);
AT(ibv_send_wr, bind, 80);
AT(ibv_wc, wc_flags, 36);
AT(ibv_wc, dlid_path_bits, 45);
AT(ibv_qp_attr, ah_attr, 56);
AT(ibv_qp_attr, pkey_index, 120);
AT(ibv_qp_attr, rate_limit, 136);
AT(ibv_srq_init_attr_ex, tm_cap, 56);
AT(ibv_qp_open_attr, qp_type, 24);
AT(ibv_ops_wr, tm.tag, 56);
AT(ibv_port_attr, link_layer, 46);
AT(ibv_port_attr, active_speed_ex, 52);
AT(ibv_device_attr, atomic_cap, 164);
AT(ibv_device_attr, max_srq, 212);
AT(ibv_device_attr, phys_port_cnt, 227);
_Static_assert(sizeof(struct ibv_send_wr) == 128 && sizeof(struct ibv_recv_wr) == 32 && sizeof(struct ibv_wc) == 48, "work requests");
_Static_assert(offsetof(struct verbs_context, context) == 8 * BELOW, "verbs_context");

_Static_assert(sizeof(pthread_mutex_t) != 40 || (sizeof(struct ibv_cq) == 128 &&
	offsetof(struct ibv_cq_ex_tail, read_wallclock) == 280 - 128), "struct ibv_cq_ex");

#define CQ(c) ((struct fcq *)(c))
#define QP(q) ((struct fqp *)(q))
#define SRQ(s) ((struct fsrq *)(s))
#define WQ(w) ((struct fwq *)(w))
#define MAX_SGE 16
#define PORTS 2
#define GIDS 8

/* Knobs. */

struct knob { char name[56]; long value; };
static struct knob knobs[64];
static pthread_mutex_t knob_lock = PTHREAD_MUTEX_INITIALIZER;

/* Those that the data path reads. */
static struct {
	long sink;        /* sends and receives are accepted and forgotten */
	long flood;       /* polling finds as many completions as are asked for */
	long poll;        /* if not 0, what poll_cq returns */
	long notify;      /* if not 0, what req_notify_cq returns */
	long post_at;     /* which work request of a post fails, from 1; 0 for none */
	long post_errno;  /* and how */
	long post_no_bad; /* leave *bad_wr alone */
	long status, opcode, flags; /* overrides in completions, -1 for none */
	long ex_start, ex_next;     /* if not 0, what start_poll and next_poll return */
	long ex_ends;               /* calls of end_poll */
} hot = {.status = -1, .opcode = -1, .flags = -1};

static const struct { const char *name; long *at, idle; } hot_knobs[] = {
	{"sink", &hot.sink, 0}, {"flood", &hot.flood, 0}, {"poll", &hot.poll, 0}, {"notify", &hot.notify, 0},
	{"post.at", &hot.post_at, 0}, {"post.errno", &hot.post_errno, 0}, {"post.nobad", &hot.post_no_bad, 0},
	{"ex.start", &hot.ex_start, 0}, {"ex.next", &hot.ex_next, 0},
	{"wc.status", &hot.status, -1}, {"wc.opcode", &hot.opcode, -1}, {"wc.flags", &hot.flags, -1},
};

static struct knob *find(const char *name)
{
	for (unsigned i = 0; i < sizeof knobs / sizeof *knobs; i++)
		if (!strcmp(knobs[i].name, name))
			return &knobs[i];
	return NULL;
}

void fv_set(const char *name, long value)
{
	for (unsigned i = 0; i < sizeof hot_knobs / sizeof *hot_knobs; i++)
		if (!strcmp(hot_knobs[i].name, name))
			*hot_knobs[i].at = value;
	pthread_mutex_lock(&knob_lock);
	struct knob *k = find(name);
	if (!k && (k = find("")))
		snprintf(k->name, sizeof k->name, "%s", name);
	if (!k)
		abort();
	k->value = value;
	pthread_mutex_unlock(&knob_lock);
}

void fv_unset(const char *name)
{
	for (unsigned i = 0; i < sizeof hot_knobs / sizeof *hot_knobs; i++)
		if (!strcmp(hot_knobs[i].name, name))
			*hot_knobs[i].at = hot_knobs[i].idle;
	pthread_mutex_lock(&knob_lock);
	struct knob *k = find(name);
	if (k)
		k->name[0] = 0;
	pthread_mutex_unlock(&knob_lock);
}

static int get(const char *name, long *value)
{
	pthread_mutex_lock(&knob_lock);
	struct knob *k = find(name);
	if (k)
		*value = k->value;
	pthread_mutex_unlock(&knob_lock);
	return k != NULL;
}

static long knob(const char *name, long otherwise)
{
	get(name, &otherwise);
	return otherwise;
}

long fv_get(const char *name) { return strcmp(name, "ex.ends") ? knob(name, -1) : hot.ex_ends; }

static atomic_long live; /* objects, in all */
long fv_live(void) { return live; }

__attribute__((constructor)) static void start(void)
{
	char *env = getenv("FAKEVERBS"), *copy = env ? strdup(env) : NULL, *save = NULL;
	for (char *p = copy ? strtok_r(copy, ",", &save) : NULL; p; p = strtok_r(NULL, ",", &save)) {
		char *eq = strchr(p, '=');
		if (!eq)
			continue;
		*eq = 0;
		fv_set(p, strtol(eq + 1, NULL, 0));
	}
	free(copy);
}

static int failing(const char *fn, long *e)
{
	char name[56];
	snprintf(name, sizeof name, "fail.%s", fn);
	return get(name, e);
}

/* Each fails the way its function does: an errno value, NULL, or -1. */
#define FAIL_E do { long e; if (failing(__func__, &e)) return (int)e; } while (0)
#define FAIL_P do { long e; if (failing(__func__, &e)) { errno = (int)e; return NULL; } } while (0)
#define FAIL_M do { long e; if (failing(__func__, &e)) { errno = (int)e; return -1; } } while (0)

static void *fail(int e) { errno = e; return NULL; }

/* Objects. */

struct lock { atomic_flag held; };
static inline void take(struct lock *l)
{
	while (atomic_flag_test_and_set_explicit(&l->held, memory_order_acquire))
		sched_yield();
}
static inline void drop(struct lock *l) { atomic_flag_clear_explicit(&l->held, memory_order_release); }

struct fctx { struct verbs_context v; int async_write; };
#define CTX(c) ((struct fctx *)((char *)(c) - offsetof(struct verbs_context, context)))

struct fchannel { struct ibv_comp_channel pub; int write; };

struct fqp;
struct cqe { struct ibv_wc wc; struct fqp *sender; uint32_t credits; };
struct fcq {
	struct ibv_cq pub;
	struct ibv_cq_ex_tail ex; /* what makes of pub a struct ibv_cq_ex */
	struct lock lock;
	struct cqe *ring;
	uint32_t cap, head, tail; /* free-running */
	int armed, users, overrun, extended;
	int stamped; /* by the experimental verbs: 1 until it was polled */
	int batch; /* completions of the open batch of an extended CQ */
	struct ibv_wc cur; /* the last of them */
	uint32_t comp_reported, async_reported, flooded;
};

struct recv { uint64_t wr_id; int n; struct ibv_sge sge[MAX_SGE]; };
struct rq { struct lock lock; struct recv *ring; uint32_t cap, max_sge, head, tail, limit; };

struct fsrq {
	struct ibv_srq pub;
	struct rq rq;
	int users;
	uint32_t async_reported, type, num;
	struct ibv_cq *cq; /* of XRC and tag matching */
	struct ibv_xrcd *xrcd;
};

struct fwq { struct ibv_wq pub; struct rq rq; int users; uint32_t async_reported; };
struct fwq_table;

struct session;
struct fqp {
	struct ibv_qp pub;
	struct qp_ex ex;
	struct session *session; /* NULL without send operations */
	struct lock sq_lock;
	struct rq rq;
	atomic_uint used;   /* send slots taken */
	uint32_t unsignaled; /* of them, those that the next completion frees */
	int sig_all, alive;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_xrcd *xrcd;
	struct fwq_table *table; /* of one that spreads frames among WQs */
	int dci, dct; /* of the experimental verbs, as are these */
	uint32_t max_atomic;
	uint64_t dc_key;
	uint32_t async_reported;
	uint32_t state; /* the true one; pub.state is what modify and query last saw */
	uint8_t wqe[64 * 64]; /* where sends of the sink go */
	uint32_t pi;
	volatile uint64_t doorbell;
};

/* Numbers stay valid memory for ever: a send may race with a destroy. */
#define TABLE 4096
static struct fqp *qps[TABLE];
static struct fsrq *srqs[TABLE]; /* those that peers name */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

struct region { atomic_int used; struct ibv_pd *pd; uint64_t iova; char *addr; size_t length; uint32_t access; uint8_t gen; int windows; struct region *under; };
static struct region regions[TABLE];

static struct ibv_device devices[4];

int ibv_destroy_qp(struct ibv_qp *qp);

/* Devices and contexts. */

static void fill_device(struct ibv_device *d, int i)
{
	memset(d, 0, sizeof *d);
	d->node_type = (int)knob("node_type", 1);
	d->transport_type = (int)knob("transport_type", 0);
	snprintf(d->name, sizeof d->name, "fake%d", i);
	snprintf(d->dev_name, sizeof d->dev_name, "uverbs%d", i);
}

struct ibv_device **ibv_get_device_list(int *num)
{
	FAIL_P;
	int n = (int)knob("devices", 2);
	struct ibv_device **list = calloc((size_t)n + 1, sizeof *list);
	for (int i = 0; i < n; i++) {
		fill_device(&devices[i], i);
		list[i] = &devices[i];
	}
	if (num)
		*num = n;
	live++;
	return list;
}

void ibv_free_device_list(struct ibv_device **list) { free(list); live--; }

static uint64_t be64(uint64_t v) { return __builtin_bswap64(v); }

#if !defined(SPARSE) || defined(WITH_NAMES)
const char *ibv_get_device_name(struct ibv_device *d) { return d->name; }
uint64_t ibv_get_device_guid(struct ibv_device *d) { return be64(0x0002c90300000000 + (uint64_t)(d - devices)); }
#endif
#if OLD >= 30
int ibv_get_device_index(struct ibv_device *d) { return 7 + (int)(d - devices); }
#endif

#include "flow.c"

static int query_device_ex(struct ibv_context *c, const void *in, void *out, size_t size);
static struct ibv_td *alloc_td(struct ibv_context *c, struct ibv_td_init_attr *a);
static int dealloc_td(struct ibv_td *td);
static struct ibv_pd *alloc_parent_domain(struct ibv_context *c, struct ibv_parent_domain_init_attr *a);
static struct ibv_dm *alloc_dm(struct ibv_context *c, struct ibv_alloc_dm_attr *a);
static int free_dm(struct ibv_dm *dm);
static struct ibv_mr *reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t off, size_t length, unsigned access);
static int advise_mr(struct ibv_pd *pd, int advice, uint32_t flags, struct ibv_sge *sge, uint32_t n);
static struct ibv_cq *create_cq_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *a);
static int query_rt_values(struct ibv_context *c, struct ibv_values_ex *v);
static int modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *a);
static struct ibv_qp *create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *a);
static int query_port(struct ibv_context *c, uint8_t port, struct ibv_port_attr *out, size_t size);
static struct ibv_xrcd *open_xrcd(struct ibv_context *c, struct ibv_xrcd_init_attr *a);
static int close_xrcd(struct ibv_xrcd *x);
static struct ibv_srq *create_srq_ex(struct ibv_context *c, struct ibv_srq_init_attr_ex *a);
static int get_srq_num(struct ibv_srq *s, uint32_t *num);
static struct ibv_qp *create_xrc_recv(struct ibv_context *c, struct ibv_qp_init_attr_ex *a);
static struct ibv_qp *open_qp(struct ibv_context *c, struct ibv_qp_open_attr *a);
static int post_srq_ops(struct ibv_srq *s, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad);
struct ibv_qp_rate_limit_attr;
static int modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *a);
static void leave_srq(struct fsrq *s);
static void wq_ops(uintptr_t *end, size_t size, size_t context);
static void leave_qp(struct fqp *qp);
static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
static int req_notify_cq(struct ibv_cq *cq, int solicited);
static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
static struct ibv_mw *alloc_mw(struct ibv_pd *pd, int type);
static int bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
static int dealloc_mw(struct ibv_mw *mw);
static void exp_ops(struct ibv_context *c, size_t sz);
static struct ibv_mr *alloc_null_mr(struct ibv_pd *pd);
static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	FAIL_P;
	struct fctx *f = calloc(1, sizeof *f);
	struct verbs_context *v = &f->v;
	struct ibv_context *c = &v->context;
	size_t sz = (size_t)knob("sz", OLD >= 59 ? 672 : OLD >= 22 ? 648 : OLD >= 17 ? 536 : 496);
	sz += sizeof(pthread_mutex_t) - 40;
	/* Whatever lies below the struct is not an op: calling it must crash. */
	for (int i = 0; i < BELOW; i++)
		v->below[i] = 0xbad0bad0bad0;
	uintptr_t *end = (uintptr_t *)c;
	for (size_t dist = 8; dist + sizeof *c <= sz && dist <= sizeof v->below; dist += 8)
		end[-(ptrdiff_t)dist / 8] = 0;
	end[-1] = sz;
	end[-DIST_COMP_MASK / 8] = (uintptr_t)knob("comp_mask", 0);
	if (DIST_QUERY_DEVICE_EX + sizeof *c <= sz && !knob("null.query_device_ex", 0))
		end[-DIST_QUERY_DEVICE_EX / 8] = (uintptr_t)query_device_ex;
	if (DIST_QUERY_PORT + sizeof *c <= sz && !knob("null.query_port", 0))
		end[-DIST_QUERY_PORT / 8] = (uintptr_t)query_port;
	if (DIST_CREATE_CQ_EX + sizeof *c <= sz && !knob("null.create_cq_ex", 0))
		end[-DIST_CREATE_CQ_EX / 8] = (uintptr_t)create_cq_ex;
	if (DIST_QUERY_RT_VALUES + sizeof *c <= sz && !knob("null.query_rt_values", 0))
		end[-DIST_QUERY_RT_VALUES / 8] = (uintptr_t)query_rt_values;
	if (!knob("null.create_qp_ex", 0))
		end[-DIST_CREATE_QP_EX / 8] = (uintptr_t)create_qp_ex;
	if (DIST_MODIFY_CQ + sizeof *c <= sz && !knob("null.modify_cq", 0))
		end[-DIST_MODIFY_CQ / 8] = (uintptr_t)modify_cq;
	if (DIST_REG_DM_MR + sizeof *c <= sz) {
		end[-DIST_FREE_DM / 8] = (uintptr_t)free_dm;
		end[-DIST_ALLOC_DM / 8] = (uintptr_t)alloc_dm;
		end[-DIST_REG_DM_MR / 8] = (uintptr_t)reg_dm_mr;
	}
	if (DIST_ADVISE_MR + sizeof *c <= sz)
		end[-DIST_ADVISE_MR / 8] = (uintptr_t)advise_mr;
	if (DIST_ALLOC_PARENT_DOMAIN + sizeof *c <= sz) {
		end[-DIST_ALLOC_TD / 8] = (uintptr_t)alloc_td;
		end[-DIST_DEALLOC_TD / 8] = (uintptr_t)dealloc_td;
		end[-DIST_ALLOC_PARENT_DOMAIN / 8] = (uintptr_t)alloc_parent_domain;
	}
	flow_ops(end, sz, sizeof *c);
	if (!knob("null.xrc", 0)) {
		end[-DIST_OPEN_XRCD / 8] = (uintptr_t)open_xrcd;
		end[-DIST_CLOSE_XRCD / 8] = (uintptr_t)close_xrcd;
		end[-DIST_CREATE_SRQ_EX / 8] = (uintptr_t)create_srq_ex;
		end[-DIST_GET_SRQ_NUM / 8] = (uintptr_t)get_srq_num;
		end[-DIST_OPEN_QP / 8] = (uintptr_t)open_qp;
	}
	wq_ops(end, sz, sizeof *c);
	if (DIST_MODIFY_QP_RATE_LIMIT + sizeof *c <= sz)
		end[-DIST_MODIFY_QP_RATE_LIMIT / 8] = (uintptr_t)modify_qp_rate_limit;
	if (DIST_POST_SRQ_OPS + sizeof *c <= sz && !knob("null.post_srq_ops", 0))
		end[-DIST_POST_SRQ_OPS / 8] = (uintptr_t)post_srq_ops;
	exp_ops(c, sz);
	int p[2];
	if (pipe2(p, O_CLOEXEC)) {
		free(f);
		return NULL;
	}
	c->device = d;
	c->async_fd = p[0];
	f->async_write = p[1];
	c->cmd_fd = -1;
	c->num_comp_vectors = (int)knob("vectors", 2);
	pthread_mutex_init(&c->mutex, NULL);
	c->abi_compat = (void *)(knob("unextended", 0) ? 0 : UINTPTR_MAX);
	c->ops[SLOT_ALLOC_MW] = knob("null.alloc_mw", 0) ? NULL : (void *)alloc_mw;
	c->ops[SLOT_BIND_MW] = knob("null.bind_mw", 0) ? NULL : (void *)bind_mw;
	c->ops[SLOT_DEALLOC_MW] = dealloc_mw;
	if (DIST_ALLOC_NULL_MR + sizeof *c <= sz)
		end[-DIST_ALLOC_NULL_MR / 8] = (uintptr_t)alloc_null_mr;
	c->ops[SLOT_POLL] = knob("null.poll_cq", 0) ? NULL : (void *)poll_cq;
	c->ops[SLOT_NOTIFY] = req_notify_cq;
	c->ops[SLOT_POST_SEND] = knob("null.post_send", 0) ? NULL : (void *)post_send;
	c->ops[SLOT_POST_RECV] = post_recv;
	c->ops[SLOT_POST_SRQ] = knob("null.post_srq_recv", 0) ? NULL : (void *)post_srq_recv;
	live++;
	return c;
}

int ibv_close_device(struct ibv_context *c)
{
	FAIL_E;
	close(c->async_fd);
	close(CTX(c)->async_write);
	if (c->cmd_fd >= 0)
		close(c->cmd_fd);
	memset(CTX(c), 0xdb, sizeof(struct fctx));
	free(CTX(c));
	live--;
	return 0;
}

static uint32_t vendor(void) { return (uint32_t)knob("vendor_id", 0x1234); }

int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *a)
{
	(void)c;
	FAIL_E;
	memset(a, 0, sizeof *a);
	strcpy(a->fw_ver, "1.2.3");
	a->node_guid = be64(0x0002c90300000000 + (uint64_t)(c->device - devices));
	a->vendor_id = vendor();
	a->vendor_part_id = knob("vendor_part_id", 0);
	a->max_mr_size = 1ull << 40;
	a->max_qp = 256;
	a->max_qp_wr = 4096;
	a->device_cap_flags = 1 << 13 | knob("device_cap_flags", 0); /* SRQ_RESIZE */
	a->max_sge = MAX_SGE;
	a->max_cq = 256;
	a->max_cqe = 65536;
	a->max_mr = TABLE;
	a->max_pd = 256;
	a->max_qp_rd_atom = 16;
	a->max_qp_init_rd_atom = 16;
	a->atomic_cap = (uint32_t)knob("atomic_cap", 1);
	a->max_srq = 16;
	a->max_srq_wr = 4096;
	a->max_srq_sge = MAX_SGE;
	a->max_pkeys = 1;
	a->phys_port_cnt = PORTS;
	return 0;
}

static int query_device_ex(struct ibv_context *c, const void *in, void *out, size_t size)
{
	long e;
	(void)in;
	if (failing("query_device_ex", &e))
		return (int)e;
	memset(out, 0, size);
	if (size >= 400) {
		*(uint64_t *)((char *)out + 272) = 1000000; /* hca_core_clock */
		*(uint64_t *)((char *)out + 376) = (uint64_t)knob("max_dm_size", 0);
		*(uint64_t *)((char *)out + 240) = (uint64_t)knob("odp.general", 0);
		*(uint32_t *)((char *)out + 332) = (uint32_t)knob("pacing.min", 0);
		*(uint32_t *)((char *)out + 336) = (uint32_t)knob("pacing.max", 0);
		*(uint32_t *)((char *)out + 340) = (uint32_t)knob("pacing.types", 1 << QPT_RC);
		*(uint32_t *)((char *)out + 352) = (uint32_t)knob("tm_caps.max_tags", 0);
		*(uint32_t *)((char *)out + 360) = (uint32_t)knob("tm_caps.max_ops", 0);
		*(uint64_t *)((char *)out + 280) = (uint64_t)knob("cap_flags_ex", 0);
		*(uint32_t *)((char *)out + 288) = (uint32_t)knob("tso.max", 0);
		*(uint32_t *)((char *)out + 292) = (uint32_t)knob("tso.qpts", 0);
		*(uint32_t *)((char *)out + 296) = (uint32_t)knob("rss.types", 0);
		*(uint32_t *)((char *)out + 304) = (uint32_t)knob("rss.table", 0);
		*(uint64_t *)((char *)out + 312) = (uint64_t)knob("rss.fields", 0);
		*(uint8_t *)((char *)out + 320) = (uint8_t)knob("rss.functions", 0);
		*(uint32_t *)((char *)out + 328) = (uint32_t)knob("max_wq", 0);
		*(uint32_t *)((char *)out + 344) = (uint32_t)knob("raw_packet_caps", 0);
		*(uint16_t *)((char *)out + 368) = (uint16_t)knob("cq_mod.max_count", 0);
		*(uint16_t *)((char *)out + 370) = (uint16_t)knob("cq_mod.max_period", 0);
	}
	return ibv_query_device(c, out);
}

static int fill_port(uint8_t port, struct ibv_port_attr *a)
{
	memset(a, 0, sizeof *a);
	if (port < 1 || port > PORTS)
		return EINVAL;
	a->state = (uint32_t)knob("port.state", port == 1 ? 4 : 1);
	a->max_mtu = (uint32_t)knob("port.mtu", 5);
	a->active_mtu = (uint32_t)knob("port.mtu", 5);
	a->gid_tbl_len = GIDS;
	a->max_msg_sz = 1u << 30;
	a->pkey_tbl_len = 1;
	a->lid = (uint16_t)knob("port.lid", 0);
	a->lmc = (uint8_t)knob("port.lmc", 0);
	a->phys_state = (uint8_t)knob("port.phys", 5);
	a->link_layer = (uint8_t)knob("port.link_layer", 2);
	a->active_width = (uint8_t)knob("port.width", 2);
	a->active_speed = (uint8_t)knob("port.speed", 128);
	a->active_speed_ex = (uint32_t)knob("port.speed_ex", 128);
	return 0;
}

int ibv_query_port(struct ibv_context *c, uint8_t port, struct ibv_port_attr *out)
{
	(void)c;
	FAIL_E;
	struct ibv_port_attr a;
	int e = fill_port(port, &a);
	memcpy(out, &a, 48);
	return e;
}

static int query_port(struct ibv_context *c, uint8_t port, struct ibv_port_attr *out, size_t size)
{
	long f;
	(void)c;
	if (failing("query_port", &f))
		return (int)f;
	struct ibv_port_attr a;
	int e = fill_port(port, &a);
	memset(out, 0, size);
	memcpy(out, &a, size < sizeof a ? size : sizeof a);
	return e;
}

/* Index 0 is link-local, 1 IPv4-mapped, the rest empty. */
static int fill_gid(int port, int index, uint64_t gid[2])
{
	gid[0] = gid[1] = 0;
	if (port < 1 || port > PORTS || index < 0 || index >= GIDS)
		return EINVAL;
	if (index == 0) {
		gid[0] = be64(0xfe80000000000000);
		gid[1] = be64(0x0002c9fffe000000 + (uint64_t)port);
	} else if (index == 1) {
		gid[1] = be64(0x0000ffff0a080000 + (uint64_t)port + (uint64_t)knob("gid.moved", 0));
		if (knob("gid.gone", 0))
			gid[1] = 0;
	}
	return 0;
}

int ibv_query_gid(struct ibv_context *c, uint8_t port, int index, uint64_t gid[2])
{
	(void)c;
	FAIL_M;
	int e = fill_gid(port, index, gid);
	if (!e)
		return 0;
	errno = e;
	return -1;
}

#if OLD >= 32
static int fill_entry(uint32_t port, uint32_t index, struct ibv_gid_entry *e)
{
	int err = fill_gid((int)port, (int)index, e->gid);
	e->gid_index = index;
	e->port_num = port;
	e->gid_type = (uint32_t)knob("gid_type", 2);
	e->ndev_ifindex = 1;
	return err ? err : e->gid[1] == 0 ? ENODATA : 0;
}

int _ibv_query_gid_ex(struct ibv_context *c, uint32_t port, uint32_t index, struct ibv_gid_entry *e, uint32_t flags, size_t size)
{
	(void)c;
	FAIL_E;
	if (flags || size != sizeof *e)
		return EINVAL;
	return fill_entry(port, index, e);
}

ssize_t _ibv_query_gid_table(struct ibv_context *c, struct ibv_gid_entry *e, size_t max, uint32_t flags, size_t size)
{
	long f;
	(void)c;
	if (failing(__func__, &f))
		return -f;
	if (flags || size != sizeof *e)
		return -EINVAL;
	size_t n = 0;
	for (uint32_t port = 1; port <= PORTS; port++)
		for (uint32_t i = 0; i < GIDS; i++) {
			struct ibv_gid_entry x;
			if (fill_entry(port, i, &x) == 0) {
				if (n == max)
					return -EINVAL;
				e[n++] = x;
			}
		}
	return (ssize_t)n;
}
#endif

int ibv_query_pkey(struct ibv_context *c, uint8_t port, int index, uint16_t *pkey)
{
	(void)c;
	FAIL_M;
	if (port < 1 || port > PORTS || index) {
		errno = EINVAL;
		return -1;
	}
	*pkey = 0xffff;
	return 0;
}

/* Protection domains and memory. */

struct ftd { struct ibv_td pub; int refs; };
struct fpd { struct ibv_pd pub; struct fpd *base; struct ftd *td; int refs; };

struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
	FAIL_P;
	struct fpd *pd = calloc(1, sizeof *pd);
	pd->pub.context = c;
	live++;
	return &pd->pub;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	FAIL_E;
	struct fpd *p = (struct fpd *)pd;
	if (p->refs)
		return EBUSY;
	if (p->base)
		p->base->refs--;
	if (p->td)
		p->td->refs--;
	memset(p, 0xdb, sizeof *p);
	free(p);
	live--;
	return 0;
}

static struct ibv_td *alloc_td(struct ibv_context *c, struct ibv_td_init_attr *a)
{
	FAIL_P;
	if (a->comp_mask)
		return fail(EINVAL);
	struct ftd *td = calloc(1, sizeof *td);
	td->pub.context = c;
	live++;
	return &td->pub;
}

static int dealloc_td(struct ibv_td *td)
{
	FAIL_E;
	if (((struct ftd *)td)->refs)
		return EBUSY;
	memset(td, 0xdb, sizeof(struct ftd));
	free(td);
	live--;
	return 0;
}

static struct ibv_pd *alloc_parent_domain(struct ibv_context *c, struct ibv_parent_domain_init_attr *a)
{
	FAIL_P;
	struct fpd *base = (struct fpd *)a->pd;
	if (a->comp_mask || !base || base->base)
		return fail(EINVAL);
	struct fpd *pd = calloc(1, sizeof *pd);
	pd->pub = base->pub;
	pd->pub.context = c;
	pd->base = base;
	pd->td = (struct ftd *)a->td;
	base->refs++;
	if (pd->td)
		pd->td->refs++;
	live++;
	return &pd->pub;
}

#define KEY(i, gen) ((uint32_t)(i) << 8 | (gen))

static struct ibv_mr *reg(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, uint32_t access)
{
	if (!length || ((access & (ACCESS_REMOTE_WRITE | ACCESS_REMOTE_ATOMIC)) && !(access & ACCESS_LOCAL_WRITE)))
		return fail(EINVAL);
	fv_set("last.access", (long)access);
	for (int i = 1; i < TABLE; i++) {
		int unused = 0;
		struct region *r = &regions[i];
		if (!atomic_compare_exchange_strong(&r->used, &unused, 1))
			continue;
		r->pd = pd;
		r->iova = iova;
		r->addr = addr;
		r->length = length;
		r->access = access;
		r->gen = 0x5a;
		r->windows = 0;
		r->under = NULL;
		struct ibv_mr *mr = calloc(1, sizeof *mr);
		mr->context = pd->context;
		mr->pd = pd;
		mr->addr = addr;
		mr->length = length;
		mr->handle = (uint32_t)i;
		mr->lkey = mr->rkey = KEY(i, 0x5a);
		live++;
		return mr;
	}
	return fail(ENOMEM);
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	FAIL_P;
	if ((uint32_t)access & ACCESS_OPTIONAL)
		return fail(EINVAL); /* as the kernels answer that this function talks to */
	return reg(pd, addr, length, (uintptr_t)addr, (uint32_t)access);
}

#if OLD >= 25
struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	FAIL_P;
	if ((uint32_t)access & ACCESS_OPTIONAL)
		return fail(EINVAL);
	return reg(pd, addr, length, iova, (uint32_t)access);
}
#endif
#if OLD >= 28
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access)
{
	FAIL_P;
	return reg(pd, addr, length, iova, access);
}
#endif

#ifndef SPARSE
int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	long e;
	int code = 0;
	if (failing(__func__, &e)) {
		code = (int)knob("rereg.code", -1);
		if (code != -3) { /* which comes after the change */
			errno = (int)e;
			return code;
		}
	}
	struct region *r = &regions[mr->handle];
	if (flags & 1) {
		r->addr = mr->addr = addr;
		r->length = mr->length = length;
		r->iova = (uintptr_t)addr;
	}
	if (flags & 2)
		r->pd = mr->pd = pd;
	if (flags & 4)
		r->access = (uint32_t)access;
	if (code)
		errno = (int)e;
	return code;
}
#endif

#include "memory.c"

int ibv_dereg_mr(struct ibv_mr *mr)
{
	FAIL_E;
	if (regions[mr->handle].windows)
		return EBUSY;
	if (dm_of[mr->handle]) {
		dm_of[mr->handle]->refs--;
		dm_of[mr->handle] = NULL;
	}
	atomic_store(&regions[mr->handle].used, 0);
	memset(mr, 0xdb, sizeof *mr);
	free(mr);
	live--;
	return 0;
}

/* mem resolves n bytes at addr under key, or NULL. */
static inline char *mem(uint32_t key, uint64_t addr, uint64_t n, uint32_t access)
{
	uint32_t i = key >> 8;
	if (i >= TABLE)
		return NULL;
	struct region *r = &regions[i];
	if (!atomic_load_explicit(&r->used, memory_order_relaxed) || (key & 0xff) != r->gen || (r->access & access) != access)
		return NULL;
	if (addr < r->iova || addr - r->iova > r->length || n > r->length - (addr - r->iova))
		return NULL;
	return r->addr + (addr - r->iova);
}

#include "mw.h"

/* Completion channels and queues. */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c)
{
	FAIL_P;
	struct fchannel *f = calloc(1, sizeof *f);
	int p[2];
	if (pipe2(p, O_CLOEXEC))
		abort();
	f->pub.context = c;
	f->pub.fd = p[0];
	f->write = p[1];
	live++;
	return &f->pub;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ch)
{
	FAIL_E;
	if (ch->refcnt)
		return EBUSY;
	close(ch->fd);
	close(((struct fchannel *)ch)->write);
	memset(ch, 0xdb, sizeof(struct fchannel));
	free(ch);
	live--;
	return 0;
}

static uint32_t round_up(uint32_t n)
{
	uint32_t p = 1;
	while (p < n)
		p *= 2;
	return p;
}

/* What a real library rounds up past the end of its type, which ends the process or worse. */
static void bounded(uint32_t n)
{
	if (n > 65536 && knob("abort", 0))
		abort();
}

struct ibv_cq *ibv_create_cq(struct ibv_context *c, int cqe, void *cookie, struct ibv_comp_channel *ch, int vector)
{
	FAIL_P;
	bounded((uint32_t)cqe);
	if (knob("overflow", 0))
		cqe = 1;
	if (cqe < 1 || cqe > 65536 || vector < 0 || vector >= c->num_comp_vectors)
		return fail(EINVAL);
	struct fcq *cq = calloc(1, sizeof *cq);
	cq->cap = round_up((uint32_t)cqe);
	cq->ring = calloc(cq->cap, sizeof *cq->ring);
	cq->pub.context = c;
	cq->pub.channel = ch;
	cq->pub.cq_context = cookie;
	cq->pub.cqe = (int)cq->cap;
	pthread_mutex_init(&cq->pub.mutex, NULL);
	pthread_cond_init(&cq->pub.cond, NULL);
	if (ch) {
		pthread_mutex_lock(&c->mutex);
		ch->refcnt++;
		pthread_mutex_unlock(&c->mutex);
	}
	live++;
	return &cq->pub;
}

#include "cq_ex.h"

/* Events are not moderated: what was asked is there to be read. */
static int modify_cq(struct ibv_cq *pub, struct ibv_modify_cq_attr *a)
{
	(void)pub;
	FAIL_E;
	if (a->attr_mask != 1)
		return EINVAL;
	fv_set("cq_mod.count", a->moderate.cq_count);
	fv_set("cq_mod.period", a->moderate.cq_period);
	return 0;
}

#ifndef SPARSE
int ibv_resize_cq(struct ibv_cq *pub, int cqe)
{
	FAIL_E;
	struct fcq *cq = CQ(pub);
	bounded((uint32_t)cqe);
	if (cqe < 1 || cqe > 65536)
		return EINVAL;
	take(&cq->lock);
	uint32_t cap = round_up((uint32_t)cqe), n = cq->tail - cq->head;
	int e = n > cap ? EINVAL : 0;
	if (!e) {
		struct cqe *ring = calloc(cap, sizeof *ring);
		for (uint32_t i = 0; i < n; i++)
			ring[i] = cq->ring[(cq->head + i) & (cq->cap - 1)];
		free(cq->ring);
		cq->ring = ring;
		cq->cap = cap;
		cq->head = 0;
		cq->tail = n;
		pub->cqe = (int)cap;
	}
	drop(&cq->lock);
	return e;
}
#endif

int ibv_destroy_cq(struct ibv_cq *pub)
{
	FAIL_E;
	struct fcq *cq = CQ(pub);
	cq_ex_rule(!cq->batch, "destroy_cq within a batch");
	if (cq->users)
		return EBUSY;
	pthread_mutex_lock(&pub->mutex);
	while (pub->comp_events_completed != cq->comp_reported || pub->async_events_completed != cq->async_reported)
		pthread_cond_wait(&pub->cond, &pub->mutex);
	pthread_mutex_unlock(&pub->mutex);
	if (pub->channel) {
		pthread_mutex_lock(&pub->context->mutex);
		pub->channel->refcnt--;
		pthread_mutex_unlock(&pub->context->mutex);
	}
	free(cq->ring);
	memset(cq, 0xdb, sizeof *cq);
	free(cq);
	live--;
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq, void **cookie)
{
	FAIL_M;
	struct ibv_cq *got;
	if (read(ch->fd, &got, sizeof got) != sizeof got)
		return -1;
	*cq = got;
	*cookie = got->cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += n;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

/* An event counts as reported when it is sent: a reader must drain them all. */
static void cq_event(struct fcq *cq)
{
	cq->armed = 0;
	if (!cq->pub.channel)
		return;
	struct ibv_cq *pub = &cq->pub;
	pthread_mutex_lock(&pub->mutex);
	cq->comp_reported++;
	pthread_mutex_unlock(&pub->mutex);
	if (write(((struct fchannel *)pub->channel)->write, &pub, sizeof pub) != sizeof pub)
		abort();
}

static int req_notify_cq(struct ibv_cq *pub, int solicited)
{
	struct fcq *cq = CQ(pub);
	if (hot.notify)
		return (int)hot.notify;
	take(&cq->lock);
	cq->armed = solicited && cq->armed != 1 ? 2 : 1;
	drop(&cq->lock);
	return 0;
}

void fv_async(struct ibv_context *c, uint32_t type, void *element)
{
	struct { uint64_t element; uint32_t type, reserved; } ev = {(uintptr_t)element, type, 0};
	if (write(CTX(c)->async_write, &ev, sizeof ev) != sizeof ev)
		abort();
}

/* The objects that async events count on: they wait for the acknowledgement. */
static void count_async(uint32_t type, void *element, int ack)
{
	pthread_mutex_t *mutex;
	pthread_cond_t *cond;
	uint32_t *reported, *completed;
	if (!element)
		return;
	if (type == EV_CQ_ERR) {
		struct fcq *cq = element;
		mutex = &cq->pub.mutex, cond = &cq->pub.cond, reported = &cq->async_reported, completed = &cq->pub.async_events_completed;
	} else if ((type >= EV_QP_FIRST && type <= EV_QP_LAST) || type == EV_LAST_WQE) {
		struct fqp *qp = element;
		mutex = &qp->pub.mutex, cond = &qp->pub.cond, reported = &qp->async_reported, completed = &qp->pub.events_completed;
	} else if (type == EV_SRQ_ERR || type == EV_SRQ_LIMIT) {
		struct fsrq *s = element;
		mutex = &s->pub.mutex, cond = &s->pub.cond, reported = &s->async_reported, completed = &s->pub.events_completed;
	} else if (type == EV_WQ_FATAL) {
		struct fwq *w = element;
		mutex = &w->pub.mutex, cond = &w->pub.cond, reported = &w->async_reported, completed = &w->pub.events_completed;
	} else {
		return;
	}
	pthread_mutex_lock(mutex);
	++*(ack ? completed : reported);
	pthread_cond_signal(cond);
	pthread_mutex_unlock(mutex);
}

int ibv_get_async_event(struct ibv_context *c, struct ibv_async_event *ev)
{
	FAIL_M;
	struct { uint64_t element; uint32_t type, reserved; } raw;
	if (read(c->async_fd, &raw, sizeof raw) != sizeof raw)
		return -1;
	ev->u.element = (void *)(uintptr_t)raw.element;
	ev->event_type = raw.type;
	count_async(raw.type, ev->u.element, 0);
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *ev) { count_async(ev->event_type, ev->u.element, 1); }

static void push(struct ibv_cq *pub, const struct ibv_wc *wc, struct fqp *sender, uint32_t credits, int solicited)
{
	struct fcq *cq = CQ(pub);
	take(&cq->lock);
	if (cq->tail - cq->head == cq->cap) {
		if (!cq->overrun++)
			fv_async(pub->context, EV_CQ_ERR, pub);
	} else {
		struct cqe *e = &cq->ring[cq->tail++ & (cq->cap - 1)];
		e->wc = *wc;
		e->sender = sender;
		e->credits = credits;
		if (cq->armed == 1 || (cq->armed == 2 && (solicited || wc->status)))
			cq_event(cq);
	}
	drop(&cq->lock);
}

static int poll_cq(struct ibv_cq *pub, int n, struct ibv_wc *wc)
{
	struct fcq *cq = CQ(pub);
	cq_ex_rule(!cq->extended, "poll_cq of a CQ that was made to be polled otherwise");
	if (__builtin_expect(hot.poll != 0, 0))
		return (int)hot.poll;
	take(&cq->lock);
	int i = 0;
	if (hot.flood) {
		for (; i < n; i++)
			wc[i] = (struct ibv_wc){.wr_id = cq->flooded++, .opcode = WCO_WRITE, .qp_num = 0x11, .byte_len = 64};
	}
	for (; i < n && cq->head != cq->tail; i++) {
		struct cqe *e = &cq->ring[cq->head++ & (cq->cap - 1)];
		wc[i] = e->wc;
		if (e->sender)
			atomic_fetch_sub_explicit(&e->sender->used, e->credits, memory_order_release);
		if (__builtin_expect(hot.status >= 0, 0))
			wc[i].status = (uint32_t)hot.status;
		if (__builtin_expect(hot.opcode >= 0, 0))
			wc[i].opcode = (uint32_t)hot.opcode;
		if (__builtin_expect(hot.flags >= 0, 0))
			wc[i].wc_flags = (uint32_t)hot.flags;
	}
	drop(&cq->lock);
	return i;
}

/* As the real ones do on destroy and reset: completions of a QP vanish. */
static void purge(struct ibv_cq *pub, uint32_t qpn)
{
	struct fcq *cq = CQ(pub);
	if (!cq)
		return;
	take(&cq->lock);
	uint32_t to = cq->head;
	for (uint32_t from = cq->head; from != cq->tail; from++) {
		struct cqe *e = &cq->ring[from & (cq->cap - 1)];
		if (e->wc.qp_num == qpn)
			continue;
		cq->ring[to++ & (cq->cap - 1)] = *e;
	}
	cq->tail = to;
	drop(&cq->lock);
}

/* Receive queues. */

static void rq_init(struct rq *rq, uint32_t max_wr, uint32_t max_sge)
{
	rq->cap = max_wr;
	rq->max_sge = max_sge;
	rq->ring = calloc(max_wr + 1, sizeof *rq->ring);
	rq->head = rq->tail = 0;
}

static int rq_post(struct rq *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int e = 0;
	take(&rq->lock);
	for (long k = 1; wr; wr = wr->next, k++) {
		if (hot.post_at == k) {
			e = (int)hot.post_errno;
			break;
		}
		if (wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge) {
			e = EINVAL;
			break;
		}
		if (rq->tail - rq->head >= rq->cap && !hot.sink) {
			e = ENOMEM;
			break;
		}
		struct recv *r = &rq->ring[rq->cap ? rq->tail % rq->cap : 0];
		r->wr_id = wr->wr_id;
		r->n = wr->num_sge;
		for (int i = 0; i < wr->num_sge; i++)
			r->sge[i] = wr->sg_list[i];
		if (!hot.sink || rq->tail - rq->head < rq->cap)
			rq->tail++;
	}
	drop(&rq->lock);
	if (e && !(hot.post_at && hot.post_no_bad))
		*bad = wr;
	return e;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) { return rq_post(&QP(qp)->rq, wr, bad); }
static int post_srq_recv(struct ibv_srq *s, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) { return rq_post(&SRQ(s)->rq, wr, bad); }

/* Preconditions: qp->rq.lock is held. */
static int rq_pop(struct fqp *qp, struct recv *out)
{
	struct rq *rq = &qp->rq;
	int ok = 0, limit = 0;
	if (qp->pub.srq) {
		rq = &SRQ(qp->pub.srq)->rq;
		take(&rq->lock);
	}
	if (rq->tail != rq->head) {
		*out = rq->ring[rq->head++ % rq->cap];
		ok = 1;
		if (rq->limit && rq->tail - rq->head < rq->limit) {
			rq->limit = 0;
			limit = 1;
		}
	}
	if (qp->pub.srq)
		drop(&rq->lock);
	if (limit)
		fv_async(qp->pub.context, EV_SRQ_LIMIT, qp->pub.srq);
	return ok;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *a)
{
	FAIL_P;
	bounded(a->attr.max_wr | a->attr.max_sge);
	if (knob("overflow", 0)) /* of the library's arithmetic */
		a->attr.max_wr = a->attr.max_sge = 1;
	if (a->attr.max_wr > 4096 || a->attr.max_sge > MAX_SGE)
		return fail(EINVAL);
	struct fsrq *s = calloc(1, sizeof *s);
	s->pub.context = pd->context;
	s->pub.pd = pd;
	pthread_mutex_init(&s->pub.mutex, NULL);
	pthread_cond_init(&s->pub.cond, NULL);
	rq_init(&s->rq, a->attr.max_wr, a->attr.max_sge);
	live++;
	return &s->pub;
}

int ibv_modify_srq(struct ibv_srq *s, struct ibv_srq_attr *a, int mask)
{
	FAIL_E;
	struct rq *rq = &SRQ(s)->rq;
	int e = 0;
	take(&rq->lock);
	uint32_t n = rq->tail - rq->head, cap = (a->max_wr + 15) & ~15u;
	if (mask & ~3 || (mask & 2 && a->srq_limit > rq->cap) || (mask & 1 && (a->max_wr > 4096 || a->max_wr < n))) {
		e = EINVAL;
	} else if (mask & 1) { /* to a multiple of 16, for that is "at least" */
		struct recv *ring = calloc(cap + 1, sizeof *ring);
		for (uint32_t i = 0; i < n; i++)
			ring[i] = rq->ring[(rq->head + i) % rq->cap];
		free(rq->ring);
		rq->ring = ring;
		rq->cap = cap;
		rq->head = 0;
		rq->tail = n;
	}
	if (!e && mask & 2)
		rq->limit = a->srq_limit;
	drop(&rq->lock);
	return e;
}

int ibv_query_srq(struct ibv_srq *s, struct ibv_srq_attr *a)
{
	FAIL_E;
	struct rq *rq = &SRQ(s)->rq;
	*a = (struct ibv_srq_attr){rq->cap, rq->max_sge, rq->limit};
	return 0;
}

int ibv_destroy_srq(struct ibv_srq *pub)
{
	FAIL_E;
	struct fsrq *s = SRQ(pub);
	if (s->users)
		return EBUSY;
	pthread_mutex_lock(&pub->mutex);
	while (pub->events_completed != s->async_reported)
		pthread_cond_wait(&pub->cond, &pub->mutex);
	pthread_mutex_unlock(&pub->mutex);
	leave_srq(s);
	free(s->rq.ring);
	memset(s, 0xdb, sizeof *s);
	free(s);
	live--;
	return 0;
}

/* Queue pairs. */

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
	FAIL_P;
	struct ibv_qp_cap *cap = &a->cap;
	bounded(cap->max_send_wr | cap->max_recv_wr | cap->max_send_sge | cap->max_recv_sge | cap->max_inline_data);
	if (knob("overflow", 0))
		cap->max_send_wr = cap->max_recv_wr = cap->max_send_sge = cap->max_recv_sge = cap->max_inline_data = 1;
	if (cap->max_send_wr > 4096 || cap->max_recv_wr > 4096 || cap->max_send_sge > MAX_SGE || cap->max_recv_sge > MAX_SGE ||
	    cap->max_inline_data > 512 || !a->send_cq != (a->qp_type == QPT_XRC_RECV) ||
	    !a->recv_cq != (a->qp_type == QPT_XRC_SEND || a->qp_type == QPT_XRC_RECV))
		return fail(EINVAL);
	if (a->qp_type != QPT_XRC_SEND && a->qp_type != QPT_XRC_RECV && a->qp_type != QPT_RC && a->qp_type != QPT_UC && a->qp_type != QPT_UD && a->qp_type != QPT_RAW &&
	    (a->qp_type != QPT_DRIVER || !knob("efa", 0)) && !(a->qp_type == 32 && knob("exp", 0)))
		return fail(EOPNOTSUPP);
	pthread_mutex_lock(&table_lock);
	struct fqp *qp = NULL;
	uint32_t n;
	for (n = 0x11; n < TABLE; n++)
		if (!qps[n] || !qps[n]->alive)
			break;
	if (n < TABLE) {
		qp = qps[n] ? qps[n] : calloc(1, sizeof *qp);
		memset(&qp->pub, 0, sizeof qp->pub);
		memset(&qp->ex, 0, sizeof qp->ex);
		qp->session = NULL;
		qp->pub.context = pd->context;
		qp->pub.pd = pd;
		qp->pub.send_cq = a->send_cq;
		qp->pub.recv_cq = a->recv_cq;
		qp->pub.srq = a->srq;
		qp->pub.qp_num = n;
		qp->pub.qp_type = a->qp_type;
		pthread_mutex_init(&qp->pub.mutex, NULL);
		pthread_cond_init(&qp->pub.cond, NULL);
		qp->init = *a;
		memset(&qp->attr, 0, sizeof qp->attr);
		qp->sig_all = a->sq_sig_all;
		qp->dci = a->qp_type == 32;
		qp->dct = 0;
		qp->max_atomic = 0;
		qp->used = qp->unsignaled = qp->async_reported = qp->state = 0;
		take(&qp->rq.lock);
		rq_init(&qp->rq, cap->max_recv_wr, cap->max_recv_sge);
		drop(&qp->rq.lock);
		if (a->send_cq)
			CQ(a->send_cq)->users++;
		if (a->recv_cq)
			CQ(a->recv_cq)->users++;
		qp->xrcd = NULL;
		qp->table = NULL;
		if (a->srq)
			SRQ(a->srq)->users++;
		qps[n] = qp;
		qp->alive = 1;
		live++;
	}
	pthread_mutex_unlock(&table_lock);
	cap->max_inline_data = (uint32_t)knob("grant.inline", cap->max_inline_data);
	return qp ? &qp->pub : fail(ENOMEM);
}

static void flush_rq(struct fqp *qp)
{
	struct recv r;
	if (qp->pub.srq || !qp->pub.recv_cq)
		return;
	take(&qp->rq.lock);
	while (rq_pop(qp, &r)) {
		struct ibv_wc wc = {.wr_id = r.wr_id, .status = WC_WR_FLUSH_ERR, .opcode = WCO_RECV, .qp_num = qp->pub.qp_num};
		push(qp->pub.recv_cq, &wc, NULL, 0, 0);
	}
	drop(&qp->rq.lock);
}

int ibv_modify_qp(struct ibv_qp *pub, struct ibv_qp_attr *a, int mask)
{
	FAIL_E;
	struct fqp *qp = QP(pub);
	if (qp->dci || qp->dct)
		return EINVAL;
	if (mask & MASK_STATE) {
		uint32_t from = qp->state, to = a->qp_state;
		int connected = pub->qp_type == QPT_RC || pub->qp_type == QPT_UC ||
				pub->qp_type == QPT_XRC_SEND || pub->qp_type == QPT_XRC_RECV;
		if (to != QPS_RESET && to != QPS_ERR && !(from < QPS_RTS && to == from + 1) && !(from == to && from == QPS_RTS))
			return EINVAL;
		if (to == QPS_RTR && connected && !(mask & MASK_DEST_QPN))
			return EINVAL;
	}
	take(&qp->sq_lock);
	uint32_t dest = mask & MASK_DEST_QPN ? a->dest_qp_num : qp->attr.dest_qp_num;
	uint32_t qkey = mask & 1 << 6 ? a->qkey : qp->attr.qkey;
	qp->attr = *a;
	qp->attr.dest_qp_num = dest;
	qp->attr.qkey = qkey;
	if (mask & MASK_STATE)
		qp->state = pub->state = a->qp_state;
	drop(&qp->sq_lock);
	if (!(mask & MASK_STATE))
		return 0;
	if (a->qp_state == QPS_ERR)
		flush_rq(qp);
	if (a->qp_state == QPS_RESET) {
		purge(pub->send_cq, pub->qp_num);
		purge(pub->recv_cq, pub->qp_num);
		take(&qp->rq.lock);
		qp->rq.head = qp->rq.tail;
		drop(&qp->rq.lock);
		qp->used = qp->unsignaled = 0;
	}
	return 0;
}

int ibv_query_qp(struct ibv_qp *pub, struct ibv_qp_attr *a, int mask, struct ibv_qp_init_attr *init)
{
	(void)mask;
	FAIL_E;
	*a = QP(pub)->attr;
	a->qp_state = pub->state = (uint32_t)knob("qp.state", QP(pub)->state);
	a->cap = QP(pub)->init.cap;
	*init = QP(pub)->init;
	return 0;
}

static void free_session(struct fqp *qp);

int ibv_destroy_qp(struct ibv_qp *pub)
{
	FAIL_E;
	struct fqp *qp = QP(pub);
	pthread_mutex_lock(&pub->mutex);
	while (pub->events_completed != qp->async_reported)
		pthread_cond_wait(&pub->cond, &pub->mutex);
	pthread_mutex_unlock(&pub->mutex);
	struct ibv_cq *send = pub->send_cq, *recv = pub->recv_cq;
	struct ibv_srq *srq = pub->srq;
	uint32_t n = pub->qp_num;
	/* Peers that deliver hold rq.lock; from here on they see a dead one. */
	pthread_mutex_lock(&table_lock);
	take(&qp->sq_lock);
	take(&qp->rq.lock);
	purge(send, n);
	purge(recv, n);
	free(qp->rq.ring);
	qp->rq.ring = NULL;
	free_session(qp);
	qp->rq.cap = qp->rq.head = qp->rq.tail = 0;
	memset(pub, 0xdb, sizeof *pub);
	qp->alive = 0;
	drop(&qp->rq.lock);
	drop(&qp->sq_lock);
	if (send)
		CQ(send)->users--;
	if (recv)
		CQ(recv)->users--;
	leave_qp(qp);
	if (srq)
		SRQ(srq)->users--;
	pthread_mutex_unlock(&table_lock);
	live--;
	return 0;
}

int ibv_attach_mcast(struct ibv_qp *qp, const void *gid, uint16_t lid)
{
	(void)qp, (void)gid, (void)lid;
	FAIL_E;
	return 0;
}

int ibv_detach_mcast(struct ibv_qp *qp, const void *gid, uint16_t lid)
{
	(void)qp, (void)gid, (void)lid;
	FAIL_E;
	return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *a)
{
	FAIL_P;
	if (a->port_num < 1 || a->port_num > PORTS)
		return fail(0); /* some providers say no more */
	struct ibv_ah *ah = calloc(1, sizeof *ah);
	ah->context = pd->context;
	ah->pd = pd;
	live++;
	return ah;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	FAIL_E;
	memset(ah, 0xdb, sizeof *ah);
	free(ah);
	live--;
	return 0;
}

/* The data path. */

static int post_locked(struct fqp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);

static uint32_t scatter(struct recv *r, uint64_t skip, const char *from, uint64_t n)
{
	for (int i = 0; i < r->n && n; i++) {
		uint64_t len = r->sge[i].length;
		if (skip >= len) {
			skip -= len;
			continue;
		}
		char *to = mem(r->sge[i].lkey, r->sge[i].addr, len, ACCESS_LOCAL_WRITE);
		if (!to)
			return WC_LOC_PROT_ERR;
		uint64_t part = len - skip < n ? len - skip : n;
		memcpy(to + skip, from, part);
		from += part;
		n -= part;
		skip = 0;
	}
	return n ? WC_LOC_LEN_ERR : 0;
}

/* gather copies the data of a request to buf, or from it for a read. */
static int gather(struct ibv_send_wr *wr, char *buf, int back)
{
	for (int i = 0; i < wr->num_sge; i++) {
		struct ibv_sge *s = &wr->sg_list[i];
		char *p = wr->send_flags & SEND_INLINE && !back ? (char *)(uintptr_t)s->addr
							        : mem(s->lkey, s->addr, s->length, back ? ACCESS_LOCAL_WRITE : 0);
		if (!p)
			return WC_LOC_PROT_ERR;
		memcpy(back ? p : buf, back ? buf : p, s->length);
		buf += s->length;
	}
	return 0;
}

/* deliver completes a receive of peer. buf may be NULL, for a write with immediate. */
static int deliver(struct fqp *qp, struct fqp *peer, struct ibv_send_wr *wr, const char *buf, uint32_t n)
{
	struct recv r;
	int ud = qp->pub.qp_type == QPT_UD, srd = qp->pub.qp_type == QPT_DRIVER;
	int st = 0;
	struct ibv_cq *cq = peer->pub.recv_cq;
	struct fqp named = {0}, *queue = peer;
	if (qp->pub.qp_type == QPT_XRC_SEND) {
		struct fsrq *s = wr->xrc[0] < TABLE ? srqs[wr->xrc[0]] : NULL;
		if (!s || s->xrcd != peer->xrcd)
			return WC_REM_INV_REQ_ERR;
		cq = s->cq;
		named.pub = (struct ibv_qp){.context = peer->pub.context, .srq = &s->pub};
		queue = &named;
	}
	take(&peer->rq.lock); /* keeps peer and its queues from being destroyed */
	if (!peer->alive || (peer->state != QPS_RTR && peer->state != QPS_RTS))
		st = WC_RETRY_EXC_ERR;
	else if (!rq_pop(queue, &r))
		st = WC_RNR_RETRY_EXC_ERR;
	if (st) {
		drop(&peer->rq.lock);
		return ud ? 0 : st;
	}
	struct ibv_wc wc = {.wr_id = r.wr_id, .opcode = buf ? WCO_RECV : WCO_RECV_IMM, .byte_len = n + (ud ? 40 : 0), .qp_num = peer->pub.qp_num,
			    .src_qp = ud || srd ? qp->pub.qp_num : 0, .wc_flags = ud ? WCF_GRH : 0};
	if (wr->opcode == OP_SEND_IMM || wr->opcode == OP_WRITE_IMM)
		wc.wc_flags |= WCF_IMM;
	if (wr->opcode == OP_SEND_INV)
		wc.wc_flags |= WCF_INV;
	wc.imm_or_rkey = wr->imm_or_rkey;
	if (buf)
		wc.status = scatter(&r, ud ? 40 : 0, buf, n);
	push(cq, &wc, NULL, 0, wr->send_flags & SEND_SOLICITED);
	drop(&peer->rq.lock);
	return wc.status ? WC_REM_INV_REQ_ERR : 0;
}

static uint32_t srd_peer(struct ibv_send_wr *wr);
static struct fqp *exp_peer(struct ibv_send_wr *wr);
static int exp_masked(struct fqp *qp, struct ibv_send_wr *wr, char *buf, uint64_t n);

static int execute(struct fqp *qp, struct ibv_send_wr *wr, uint32_t *bytes)
{
	uint64_t n = 0;
	for (int i = 0; i < wr->num_sge; i++)
		n += wr->sg_list[i].length;
	*bytes = (uint32_t)n;
	uint32_t dest = qp->pub.qp_type == QPT_UD ? wr->wr.ud.remote_qpn :
		qp->pub.qp_type == QPT_DRIVER ? srd_peer(wr) : qp->attr.dest_qp_num;
	struct fqp *peer = qp->dci ? exp_peer(wr) : dest < TABLE ? qps[dest] : NULL;
	char stack[4096], *buf = n <= sizeof stack ? stack : malloc(n), *remote;
	int st = 0;
	if (wr->opcode == OP_TSO) {
		tso(wr);
		goto out;
	}
	if (!peer || !peer->alive) {
		st = qp->pub.qp_type == QPT_UD ? 0 : WC_RETRY_EXC_ERR;
		goto out;
	}
	switch (wr->opcode) {
	case OP_FLUSH: /* of type 1 or 2, for which the access has bits 8 and 9 */
		if (!mem(wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, wr->wr.atomic.compare_add >> 8 ? 1 : wr->wr.atomic.swap,
			 (uint32_t)(wr->wr.atomic.compare_add & 3) << 8))
			st = WC_REM_ACCESS_ERR;
		break;
	case OP_ATOMIC_WRITE:
		if (wr->wr.rdma.remote_addr & 7) {
			st = WC_REM_INV_REQ_ERR;
			break;
		}
		/* fallthrough */
	case OP_WRITE:
	case OP_WRITE_IMM:
		if ((st = gather(wr, buf, 0)))
			break;
		remote = mem(wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, n, ACCESS_REMOTE_WRITE);
		if (!remote) {
			st = WC_REM_ACCESS_ERR;
			break;
		}
		memcpy(remote, buf, n);
		if (wr->opcode == OP_WRITE_IMM)
			st = deliver(qp, peer, wr, NULL, *bytes);
		break;
	case OP_READ:
		remote = mem(wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, n, ACCESS_REMOTE_READ);
		if (!remote) {
			st = WC_REM_ACCESS_ERR;
			break;
		}
		memcpy(buf, remote, n);
		st = gather(wr, buf, 1);
		break;
	case OP_CMP_SWP:
	case OP_FETCH_ADD:
		remote = mem(wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, 8, ACCESS_REMOTE_ATOMIC);
		if (!remote || n != 8) {
			st = WC_REM_ACCESS_ERR;
			break;
		}
		uint64_t old = wr->wr.atomic.compare_add;
		if (wr->opcode == OP_FETCH_ADD)
			old = __atomic_fetch_add((uint64_t *)remote, old, __ATOMIC_SEQ_CST);
		else
			__atomic_compare_exchange_n((uint64_t *)remote, &old, wr->wr.atomic.swap, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
		memcpy(buf, &old, 8);
		st = gather(wr, buf, 1);
		break;
	case OP_SEND:
	case OP_SEND_IMM:
	case OP_SEND_INV:
		st = gather(wr, buf, 0);
		if (!st)
			st = deliver(qp, peer, wr, buf, *bytes);
		break;
	case 99: /* with masks */
	case 100:
		st = exp_masked(qp, wr, buf, n);
		break;
	case OP_LOCAL_INV:
		st = invalidate(wr->imm_or_rkey);
		break;
	case OP_BIND_MW:
		st = bind((struct bind_mw *)wr->bind);
		break;
	}
out:
	if (buf != stack)
		free(buf);
	return st;
}

static uint32_t wc_opcode(uint32_t op)
{
	switch (op) {
	case OP_WRITE: case OP_WRITE_IMM: return WCO_WRITE;
	case OP_READ: return WCO_READ;
	case OP_CMP_SWP: return WCO_COMP_SWAP;
	case OP_FETCH_ADD: return WCO_FETCH_ADD;
	case OP_LOCAL_INV: return WCO_LOCAL_INV;
	case OP_BIND_MW: return WCO_BIND_MW;
	case OP_FLUSH: return WCO_FLUSH;
	case OP_ATOMIC_WRITE: return WCO_ATOMIC_WRITE;
	case OP_TSO: return WCO_TSO;
	case 99: return 9;
	case 100: return 10;
	}
	return WCO_SEND;
}

/* Keeps what a provider for a NIC does for each request: build an entry. */
static void to_sink(struct fqp *qp, struct ibv_send_wr *wr)
{
	uint64_t *w = (uint64_t *)(qp->wqe + (qp->pi++ & 63) * 64);
	w[0] = __builtin_bswap64((uint64_t)qp->pi << 8 | wr->opcode);
	w[1] = (uint64_t)qp->pub.qp_num << 8 | wr->send_flags;
	w[2] = __builtin_bswap64(wr->wr.rdma.remote_addr);
	w[3] = wr->wr.rdma.rkey;
	if (wr->send_flags & SEND_INLINE) {
		if (wr->num_sge)
			memcpy(w + 4, (void *)(uintptr_t)wr->sg_list->addr, wr->sg_list->length < 32 ? wr->sg_list->length : 32);
	} else if (wr->num_sge) {
		w[4] = (uint64_t)wr->sg_list->length << 32 | wr->sg_list->lkey;
		w[5] = __builtin_bswap64(wr->sg_list->addr);
	}
}

static int post_send(struct ibv_qp *pub, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	take(&QP(pub)->sq_lock);
	int e = post_locked(QP(pub), wr, bad);
	drop(&QP(pub)->sq_lock);
	return e;
}

/* The caller holds sq_lock. */
static int post_locked(struct fqp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct ibv_qp *pub = &qp->pub;
	int e = 0;
	if (hot.sink && !hot.post_at) {
		for (; wr; wr = wr->next)
			to_sink(qp, wr);
		qp->doorbell = qp->pi;
		return 0;
	}
	for (long k = 1; wr; wr = wr->next, k++) {
		if (hot.post_at == k) {
			e = (int)hot.post_errno;
			break;
		}
		if (qp->state < QPS_RTS || wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->init.cap.max_send_sge) {
			e = EINVAL;
			break;
		}
		if (wr->opcode == OP_BIND_MW && wr->imm_or_rkey) { /* librxe's rule */
			e = EINVAL;
			break;
		}
		if (atomic_load_explicit(&qp->used, memory_order_acquire) >= qp->init.cap.max_send_wr) {
			e = ENOMEM;
			break;
		}
		qp->used++;
		qp->unsignaled++;
		uint32_t bytes = 0;
		int st = qp->state == QPS_RTS ? execute(qp, wr, &bytes) : WC_WR_FLUSH_ERR;
		if (st)
			qp->state = QPS_ERR;
		if (st || qp->sig_all || wr->send_flags & SEND_SIGNALED) {
			struct ibv_wc wc = {.wr_id = wr->wr_id, .status = (uint32_t)st, .opcode = wc_opcode(wr->opcode), .byte_len = bytes,
					    .vendor_err = st ? 0x81 : 0, .qp_num = pub->qp_num};
			push(pub->send_cq, &wc, qp, qp->unsignaled, 0);
			qp->unsignaled = 0;
		}
		if (st)
			flush_rq(qp);
	}
	if (e && !(hot.post_at && hot.post_no_bad))
		*bad = wr;
	return e;
}

#include "exp.c"
#include "xrc.h"
#include "wq.h"

static void leave_qp(struct fqp *qp)
{
	if (qp->xrcd)
		XRCD(qp->xrcd)->users--;
	if (qp->table)
		qp->table->users--;
}
#include "qp_ex.c"
#include "comp_cntr.h"

/* A recorder: it keeps what it was given, for tests of the chains alone. */

#define RECORDS 8192
static struct { struct ibv_send_wr wr; struct ibv_sge sge[4]; char data[32]; } sends[RECORDS];
static struct { struct ibv_recv_wr wr; struct ibv_sge sge[4]; } recvs[RECORDS];
static struct { long n, at, ret, calls; void *queue; } rec;

void fv_record(long at, long ret) { rec.n = rec.calls = 0; rec.at = at; rec.ret = ret; }
long fv_recorded(void) { return rec.n; }
long fv_calls(void) { return rec.calls; }
void *fv_queue(void) { return rec.queue; }
void *fv_send(long i) { return &sends[i]; }
void *fv_recv(long i) { return &recvs[i]; }

int fv_record_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	rec.calls++;
	rec.queue = qp;
	for (; wr; wr = wr->next, rec.n++) {
		if (rec.at && rec.n + 1 == rec.at) {
			*bad = wr;
			return (int)rec.ret;
		}
		if (rec.n == RECORDS)
			abort();
		sends[rec.n].wr = *wr;
		for (int i = 0; i < wr->num_sge && i < 4; i++)
			sends[rec.n].sge[i] = wr->sg_list[i];
		if (wr->send_flags & SEND_INLINE && wr->num_sge)
			memcpy(sends[rec.n].data, (void *)(uintptr_t)wr->sg_list->addr, wr->sg_list->length < 32 ? wr->sg_list->length : 32);
	}
	return rec.at ? 0 : (int)rec.ret;
}

int fv_record_recv(void *queue, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	rec.calls++;
	rec.queue = queue;
	for (; wr; wr = wr->next, rec.n++) {
		if (rec.at && rec.n + 1 == rec.at) {
			*bad = wr;
			return (int)rec.ret;
		}
		if (rec.n == RECORDS)
			abort();
		recvs[rec.n].wr = *wr;
		for (int i = 0; i < wr->num_sge && i < 4; i++)
			recvs[rec.n].sge[i] = wr->sg_list[i];
	}
	return rec.at ? 0 : (int)rec.ret;
}

int fv_record_poll(void *cq, int n, struct ibv_wc *wc)
{
	rec.calls++;
	rec.queue = cq;
	rec.n = n;
	if (rec.ret < 0)
		return (int)rec.ret;
	for (int i = 0; i < n && i < rec.ret; i++)
		wc[i] = (struct ibv_wc){.wr_id = (uint64_t)i + 100, .byte_len = (uint32_t)i};
	return (int)rec.ret;
}

int fv_record_notify(void *cq, int solicited)
{
	rec.calls++;
	rec.queue = cq;
	rec.n = solicited;
	return (int)rec.ret;
}

/* The loops of the figures, in C: the same calls, through the same table. */

static long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000l + t.tv_nsec;
}

struct fv_write { uint64_t addr; uint64_t remote; uint32_t lkey, rkey, length, pad; };

/* Posts rounds chains of batch writes of one SGE each; returns the ns it took. */
long fv_time_send(struct ibv_qp *qp, const struct fv_write *w, long batch, long rounds)
{
	static struct ibv_send_wr wr[64];
	static struct ibv_sge sge[64];
	struct ibv_send_wr *bad;
	long start = now();
	for (long r = 0; r < rounds; r++) {
		for (long i = 0; i < batch; i++) {
			sge[i] = (struct ibv_sge){w->addr, w->length, w->lkey};
			wr[i].wr_id = (uint64_t)i;
			wr[i].next = i + 1 < batch ? &wr[i + 1] : NULL;
			wr[i].sg_list = &sge[i];
			wr[i].num_sge = 1;
			wr[i].opcode = OP_WRITE;
			wr[i].send_flags = 0;
			wr[i].wr.rdma.remote_addr = w->remote;
			wr[i].wr.rdma.rkey = w->rkey;
		}
		if (((int (*)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **))qp->context->ops[SLOT_POST_SEND])(qp, wr, &bad))
			return -1;
	}
	return now() - start;
}

long fv_time_recv(struct ibv_qp *qp, const struct fv_write *w, long batch, long rounds)
{
	static struct ibv_recv_wr wr[64];
	static struct ibv_sge sge[64];
	struct ibv_recv_wr *bad;
	long start = now();
	for (long r = 0; r < rounds; r++) {
		for (long i = 0; i < batch; i++) {
			sge[i] = (struct ibv_sge){w->addr, w->length, w->lkey};
			wr[i] = (struct ibv_recv_wr){(uint64_t)i, i + 1 < batch ? &wr[i + 1] : NULL, &sge[i], 1};
		}
		if (((int (*)(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **))qp->context->ops[SLOT_POST_RECV])(qp, wr, &bad))
			return -1;
	}
	return now() - start;
}

/* Polls batch completions at a time and looks at each; returns the ns it took. */
long fv_time_poll(struct ibv_cq *cq, long batch, long rounds)
{
	struct ibv_wc wc[64];
	long start = now();
	for (long r = 0; r < rounds; r++) {
		int n = ((int (*)(struct ibv_cq *, int, struct ibv_wc *))cq->context->ops[SLOT_POLL])(cq, (int)batch, wc);
		if (n != batch)
			return -1;
		for (int i = 0; i < n; i++)
			if (wc[i].status)
				return -1;
	}
	return now() - start;
}
