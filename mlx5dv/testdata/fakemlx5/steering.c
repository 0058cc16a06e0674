/* Steering: matchers, their rules, actions, and direct rules. What the last call was given lies in fake_given, for tests
 * to look at. fakemlx5.c includes this file. */

unsigned char fake_given[4096];
static size_t given;
static int refuse; /* errno of the next call that makes something */

void fake_refuse(int e) { refuse = e; }
int fake_given_size(void) { return given; }

static void give(const void *p, size_t n)
{
	MUST(given + n <= sizeof fake_given && (p || !n));
	if (n)
		memcpy(fake_given + given, p, n);
	given += n;
}

static void give32(uint32_t v) { give(&v, sizeof v); }

/* begin starts the record of a call, and tells whether it is to fail. */
static int begin(void)
{
	given = 0;
	errno = refuse;
	refuse = 0;
	return errno;
}

struct match { size_t size; unsigned char buf[]; };

static void give_match(struct match *m)
{
	MUST(m->size % 64 == 0 && m->size >= 320 && m->size <= 448);
	give(m->buf, m->size);
}

struct matcher_attr {
	uint32_t type, flags;
	uint16_t priority;
	uint8_t criteria;
	struct match *mask;
	uint64_t comp_mask;
	uint32_t ft_type, ib_port;
};

void *mlx5dv_create_flow_matcher(void *c, struct matcher_attr *a)
{
	of_context(c);
	if (begin())
		return NULL;
	MUST(!a->type && a->comp_mask <= 3);
	give32(a->flags), give32(a->priority), give32(a->criteria), give32(a->comp_mask), give32(a->ft_type);
	give32(a->ib_port);
	give_match(a->mask);
	void **m = make(MATCHER, 8);
	*m = c;
	return m;
}

int mlx5dv_destroy_flow_matcher(void *m) { return drop(m, MATCHER); }

/* An action or a flow that libibverbs destroys: it frees it. */
struct owned { void *word[4]; };

static struct owned *own(void *c, int at)
{
	struct owned *o = calloc(1, sizeof *o);
	o->word[at] = c;
	o->word[3] = o;
	return o;
}

static void *flow(void *matcher, struct match *value, size_t n, const char *actions, size_t stride)
{
	is(matcher, MATCHER);
	if (begin())
		return NULL;
	give_match(value);
	for (size_t i = 0; i < n; i++) {
		uint32_t type, offset = 0;
		void *obj;
		memcpy(&type, actions + i * stride, 4);
		memcpy(&obj, actions + i * stride + 8, 8);
		if (stride == 24)
			memcpy(&offset, actions + i * stride + 16, 4);
		give32(type);
		switch (type) {
		case 0:
			of_verbs(obj);
			break;
		case 3:
			MUST(((struct owned *)obj)->word[3] == obj);
			break;
		case 4:
			give32((uintptr_t)obj);
			break;
		case 5: case 6: case 8:
			is(obj, OBJ);
			give32(offset);
			break;
		case 1: case 7:
			break;
		default:
			MUST(!"an action of this type");
		}
	}
	return own(*(void **)matcher, 1);
}

void *mlx5dv_create_flow(void *m, void *v, size_t n, void *actions) { return flow(m, v, n, actions, 16); }

void *__mlx5dv_create_flow(void *m, void *v, size_t n, void *actions, size_t size)
{
	MUST(size == 24);
	return flow(m, v, n, actions, size);
}

void *mlx5dv_create_flow_action_modify_header(void *c, size_t n, void *actions, int table)
{
	of_context(c);
	if (begin())
		return NULL;
	give32(table), give(actions, n);
	return own(c, 0);
}

void *mlx5dv_create_flow_action_packet_reformat(void *c, size_t n, void *data, int way, int table)
{
	of_context(c);
	if (begin())
		return NULL;
	MUST(!n == !data);
	give32(way), give32(table), give(data, n);
	return own(c, 0);
}

void *mlx5dv_create_flow_action_esp(void *c, void **esp, uint64_t *dv)
{
	of_context(c);
	if (begin())
		return NULL;
	MUST(esp[0]);
	give(esp[0], 24), give32(dv[0]), give32(dv[1]);
	return own(c, 0);
}

struct anchor_attr { uint32_t table; uint16_t prio; uint64_t comp; };

uint32_t *mlx5dv_create_steering_anchor(void *c, struct anchor_attr *a)
{
	of_context(c);
	if (begin())
		return NULL;
	MUST(!a->comp);
	give32(a->table), give32(a->prio);
	uint32_t *sa = make(ANCHOR, 8);
	*sa = 0x1234;
	return sa;
}

int mlx5dv_destroy_steering_anchor(void *sa) { return drop(sa, ANCHOR); }

/* Direct rules. Each object counts those made of it, as libmlx5 does. */
struct dr { int users; struct dr *of[8]; int n; };

static void *dr(enum kind k, struct dr *parent)
{
	struct dr *o = make(k, sizeof *o);
	if ((o->of[0] = parent))
		o->n = 1, parent->users++;
	return o;
}

static int undr(struct dr *o, enum kind k)
{
	is(o, k);
	MUST(!o->users);
	for (int i = 0; i < o->n; i++)
		o->of[i]->users--;
	return drop(o, k);
}

void *mlx5dv_dr_domain_create(void *c, uint32_t type)
{
	of_context(c);
	if ((errno = without_devx(c)) || begin())
		return NULL;
	give32(type);
	return dr(DOMAIN, NULL);
}

int mlx5dv_dr_domain_destroy(void *d) { return undr(d, DOMAIN); }
int mlx5dv_dr_domain_sync(void *d, uint32_t f) { is(d, DOMAIN); args[0] = f; return refuse ? begin() : 0; }
void mlx5dv_dr_domain_set_reclaim_device_memory(void *d, bool on) { is(d, DOMAIN); args[0] = 10 + on; }
void mlx5dv_dr_domain_allow_duplicate_rules(void *d, bool on) { is(d, DOMAIN); args[0] = 20 + on; }

void *mlx5dv_dr_table_create(void *d, uint32_t level)
{
	is(d, DOMAIN);
	if (begin())
		return NULL;
	give32(level);
	return dr(TABLE, d);
}

int mlx5dv_dr_table_destroy(void *t) { return undr(t, TABLE); }

void *mlx5dv_dr_matcher_create(void *t, uint16_t prio, uint8_t criteria, struct match *mask)
{
	is(t, TABLE);
	if (begin())
		return NULL;
	give32(prio), give32(criteria), give_match(mask);
	return dr(DMATCHER, t);
}

int mlx5dv_dr_matcher_destroy(void *m) { return undr(m, DMATCHER); }

int mlx5dv_dr_matcher_set_layout(void *m, uint32_t *layout)
{
	is(m, DMATCHER);
	args[0] = layout[0], args[1] = layout[1];
	return 0;
}

void *mlx5dv_dr_rule_create(void *m, struct match *value, size_t n, struct dr *actions[])
{
	is(m, DMATCHER);
	if (begin())
		return NULL;
	give_match(value), give32(n);
	struct dr *r = dr(RULE, m);
	for (size_t i = 0; i < n; i++) {
		is(actions[i], ACTION);
		MUST(r->n < 8);
		actions[i]->users++;
		r->of[r->n++] = actions[i];
	}
	return r;
}

int mlx5dv_dr_rule_destroy(void *r) { return undr(r, RULE); }
int mlx5dv_dr_action_destroy(void *a) { return undr(a, ACTION); }

#define DR_ACTION(name, params, check, parent, ...) \
	void *mlx5dv_dr_action_create_##name params \
	{ \
		check; \
		if (begin()) \
			return NULL; \
		__VA_ARGS__; \
		return dr(ACTION, parent); \
	}

DR_ACTION(drop, (void), , NULL, give32(1))
DR_ACTION(default_miss, (void), , NULL, give32(2))
DR_ACTION(pop_vlan, (void), , NULL, give32(3))
DR_ACTION(tag, (uint32_t tag), , NULL, give32(tag))
DR_ACTION(dest_ibv_qp, (void *qp), of_verbs(qp), NULL, give32(4))
DR_ACTION(dest_table, (struct dr *t), is(t, TABLE), t, give32(5))
DR_ACTION(dest_root_table, (struct dr *t, uint16_t prio), is(t, TABLE), t, give32(prio))
DR_ACTION(dest_vport, (struct dr *d, uint32_t n), is(d, DOMAIN), d, give32(n))
DR_ACTION(dest_ib_port, (struct dr *d, uint32_t n), is(d, DOMAIN), d, give32(n))
DR_ACTION(dest_devx_tir, (void *o), is(o, OBJ), NULL, give32(6))
DR_ACTION(flow_counter, (void *o, uint32_t off), is(o, OBJ), NULL, give32(off))
DR_ACTION(aso, (struct dr *d, void *o, uint32_t off, uint32_t flags, uint8_t reg), is(d, DOMAIN); is(o, OBJ), d,
	  give32(off), give32(flags), give32(reg))
DR_ACTION(packet_reformat, (struct dr *d, uint32_t flags, int way, size_t n, void *data), is(d, DOMAIN); MUST(!n == !data),
	  d, give32(flags), give32(way), give(data, n))
DR_ACTION(modify_header, (struct dr *d, uint32_t flags, size_t n, void *actions), is(d, DOMAIN), d, give32(flags),
	  give(actions, n))
DR_ACTION(push_vlan, (struct dr *d, uint32_t header), is(d, DOMAIN), d, give(&header, 4))

struct dest { uint32_t type; struct dr **to; };

DR_ACTION(dest_array, (struct dr *d, size_t n, struct dest *list[]), is(d, DOMAIN), d, give32(n);
	  for (size_t i = 0; i < n; i++) {
		  give32(list[i]->type);
		  if (!list[i]->type) {
			  is(list[i]->to, ACTION);
		  } else {
			  is(list[i]->to[0], ACTION);
			  is(list[i]->to[1], ACTION);
			  MUST(list[i]->to[0] != list[i]->to[1]);
		  }
	  })

struct meter { struct dr *next; uint8_t active, reg; size_t size; void *param; };

DR_ACTION(flow_meter, (struct meter *m), is(m->next, TABLE), m->next, give32(m->active), give32(m->reg),
	  give(m->param, m->size))

int mlx5dv_dr_action_modify_flow_meter(void *a, struct meter *m, uint64_t fields)
{
	is(a, ACTION);
	MUST(!m->next);
	begin();
	give32(m->active), give(&fields, 8), give(m->param, m->size);
	return 0;
}

struct sampler { uint32_t ratio; struct dr *next; uint32_t n; struct dr **actions; uint64_t set; };

DR_ACTION(flow_sampler, (struct sampler *s), is(s->next, TABLE), s->next, give32(s->ratio), give32(s->n),
	  give(&s->set, 8); for (uint32_t i = 0; i < s->n; i++) is(s->actions[i], ACTION))

int mlx5dv_dr_action_modify_aso(void *a, uint32_t off, uint32_t flags, uint8_t reg)
{
	is(a, ACTION);
	args[0] = off, args[1] = flags, args[2] = reg;
	return 0;
}

int mlx5dv_dr_aso_other_domain_link(void *o, void *peer, void *d, uint32_t flags, uint8_t reg)
{
	is(o, OBJ), is(peer, DOMAIN), is(d, DOMAIN);
	MUST(peer != d);
	args[0] = flags, args[1] = reg;
	return 0;
}

int mlx5dv_dr_aso_other_domain_unlink(void *o, void *d) { is(o, OBJ), is(d, DOMAIN); args[0] = 99; return 0; }

#define DUMP(name, k) \
	int mlx5dv_dump_dr_##name(FILE *f, void *o) \
	{ \
		is(o, k); \
		return refuse ? begin() : fputs("dump of a " #name "\n", f) < 0 ? EIO : 0; \
	}

DUMP(domain, DOMAIN)
DUMP(table, TABLE)
DUMP(matcher, DMATCHER)
DUMP(rule, RULE)
