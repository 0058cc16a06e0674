/*
 * Steering rules, their counters and ESP actions. The last rule and the last action lie in fv_flow and fv_esp for
 * tests to look at. fakeverbs.c includes this file.
 */
#define DIST_CREATE_FLOW 80
#define DIST_DESTROY_FLOW 96
#define DIST_CREATE_ESP 224
#define DIST_DESTROY_ACTION 232
#define DIST_MODIFY_ESP 240
#define DIST_DESTROY_COUNTERS 272
#define DIST_CREATE_COUNTERS 280
#define DIST_ATTACH_COUNTERS 288
#define DIST_READ_COUNTERS 296

struct ibv_flow_attr {
	uint32_t comp_mask, type;
	uint16_t size, priority;
	uint8_t num_of_specs, port;
	uint32_t flags;
};
struct spec_hdr { uint32_t type; uint16_t size; };
struct fflow { uint32_t comp_mask; struct ibv_context *context; uint32_t handle; };
struct fcounters { struct ibv_context *context; uint32_t n, index[8]; };
struct faction { struct ibv_context *context; };
struct attach { uint32_t desc, index, comp_mask; };
struct esp_attr {
	const void *esp;
	uint32_t keymat_proto;
	uint16_t keymat_len;
	const void *keymat;
	uint32_t replay_proto;
	uint16_t replay_len;
	const void *replay, *encap;
	uint32_t comp_mask, esn;
};
_Static_assert(sizeof(struct ibv_flow_attr) == 20 && sizeof(struct esp_attr) == 56, "flows");

uint8_t fv_flow[2048];
/* the action, at 0; keymat_len at 24 and the key behind it; at 96 replay_proto, replay_len, size; at 112 comp_mask, esn */
uint8_t fv_esp[128];

static struct fflow *create_flow(struct ibv_qp *qp, struct ibv_flow_attr *a)
{
	FAIL_P;
	size_t at = sizeof *a;
	for (int i = 0; i < a->num_of_specs; i++) {
		struct spec_hdr h;
		if (at + sizeof h > a->size)
			return fail(EINVAL);
		memcpy(&h, (char *)a + at, sizeof h);
		at += h.size;
	}
	if (at != a->size || at > sizeof fv_flow || a->comp_mask || qp->qp_type != QPT_RAW)
		return fail(EINVAL);
	memset(fv_flow, 0, sizeof fv_flow);
	memcpy(fv_flow, a, a->size);
	struct fflow *f = calloc(1, sizeof *f);
	f->context = qp->context;
	live++;
	return f;
}

static int destroy_flow(struct fflow *f)
{
	FAIL_E;
	memset(f, 0xdb, sizeof *f);
	free(f);
	live--;
	return 0;
}

static struct fcounters *create_counters(struct ibv_context *c, uint32_t *comp_mask)
{
	FAIL_P;
	if (*comp_mask)
		return fail(EINVAL);
	struct fcounters *o = calloc(1, sizeof *o);
	o->context = c;
	live++;
	return o;
}

static int destroy_counters(struct fcounters *o)
{
	FAIL_E;
	free(o);
	live--;
	return 0;
}

static int attach_counters(struct fcounters *o, struct attach *a, struct fflow *f)
{
	FAIL_E;
	if (a->comp_mask || a->desc > 1 || o->n == 8)
		return EINVAL;
	if (f)
		return ENOTSUP;
	fv_set("attach.desc", a->desc);
	fv_set("attach.index", a->index);
	o->index[o->n++] = a->index;
	return 0;
}

static int read_counters(struct fcounters *o, uint64_t *v, uint32_t n, uint32_t flags)
{
	FAIL_E;
	fv_set("read.flags", flags);
	for (uint32_t i = 0; i < o->n; i++) {
		if (o->index[i] >= n)
			return EINVAL;
		v[o->index[i]] = 1000 + o->index[i];
	}
	return 0;
}

static int take_esp(struct esp_attr *a)
{
	memset(fv_esp, 0, sizeof fv_esp);
	if (!a->esp || a->encap || a->keymat_proto || (a->keymat && a->keymat_len != 56) || (a->replay && a->replay_len != 4))
		return EINVAL;
	memcpy(fv_esp, a->esp, 24);
	if (a->keymat)
		memcpy(fv_esp + 24, a->keymat, a->keymat_len);
	if (a->replay) {
		memcpy(fv_esp + 96, &a->replay_proto, 4);
		memcpy(fv_esp + 100, a->replay, 4);
	}
	memcpy(fv_esp + 112, &a->comp_mask, 8);
	return 0;
}

static struct faction *create_flow_action_esp(struct ibv_context *c, struct esp_attr *a)
{
	FAIL_P;
	int e = take_esp(a);
	if (e)
		return fail(e);
	struct faction *f = calloc(1, sizeof *f);
	f->context = c;
	live++;
	return f;
}

static int modify_flow_action_esp(struct faction *f, struct esp_attr *a)
{
	(void)f;
	FAIL_E;
	return take_esp(a);
}

static int destroy_flow_action(struct faction *f)
{
	FAIL_E;
	free(f);
	live--;
	return 0;
}

/* The ops of a context whose struct has sz bytes. */
static void flow_ops(uintptr_t *end, size_t sz, size_t context)
{
	const struct { size_t dist; void *op; } ops[] = {
		{DIST_CREATE_FLOW, create_flow}, {DIST_DESTROY_FLOW, destroy_flow},
		{DIST_CREATE_ESP, create_flow_action_esp}, {DIST_DESTROY_ACTION, destroy_flow_action},
		{DIST_MODIFY_ESP, modify_flow_action_esp}, {DIST_DESTROY_COUNTERS, destroy_counters},
		{DIST_CREATE_COUNTERS, create_counters}, {DIST_ATTACH_COUNTERS, attach_counters},
		{DIST_READ_COUNTERS, read_counters},
	};
	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
		if (ops[i].dist + context <= sz)
			end[-(ptrdiff_t)ops[i].dist / 8] = (uintptr_t)ops[i].op;
}

/* The header of the last TSO request, behind its size and MSS. */
enum { OP_TSO = 10, WCO_TSO = 7 };
uint8_t fv_tso[512];

static void tso(const struct ibv_send_wr *wr)
{
	struct { const void *hdr; uint16_t size, mss; } t;
	memcpy(&t, wr->bind, sizeof t);
	memcpy(fv_tso, &t.size, 4);
	if (t.size <= sizeof fv_tso - 4)
		memcpy(fv_tso + 4, t.hdr, t.size);
}
