/* Capabilities of the device, mkeys and encryption. */

static int caps; /* 1: signatures, 2: encryption, 4: compression, of 64 bytes by hash, 8: copies of 4096 bytes, */
/* 16: keys have to be wrapped, 32: the library is older than v42 */

void fake_caps(int c) { caps = c; }

struct sig_caps { uint64_t sizes; uint32_t protections; uint16_t t10dif, crc; };

/* struct mlx5dv_context of v65; a caller says in comp_mask what it knows. */
struct context {
	uint8_t version;
	uint64_t flags, comp_mask;
	uint32_t most, formats;
	uint64_t pad[9];
	struct sig_caps sig;
	uint64_t streams, copy;
	uint16_t failed;
	uint8_t engines, wrapped;
};

_Static_assert(offsetof(struct context, sig) == 104 && offsetof(struct context, failed) == 136, "struct mlx5dv_context");

int mlx5dv_query_device(void *c, struct context *a)
{
	of_context(c);
	uint64_t asked = a->comp_mask;
	memset(a, 0, 200);
	a->comp_mask = asked & (1 | 1 << 10 | 1 << 12 | 1 << 13);
	if (caps & 1)
		a->sig = (struct sig_caps){ 1, 3, 3, 7 };
	if (caps & 2)
		a->engines = 1, a->wrapped = caps >> 4 & 1;
	if (caps & 4)
		a->most = 64, a->formats = 1;
	if (caps & 8)
		a->copy = 4096;
	return 0;
}

struct mkey { uint32_t lkey, rkey; };
struct mkey_init { void *pd; uint32_t flags; uint16_t entries; };

struct mkey *mlx5dv_create_mkey(struct mkey_init *i)
{
	of_verbs(i->pd);
	if ((errno = without_devx(*(void **)i->pd)))
		return NULL;
	MUST(i->flags & 1 && i->entries >= 4);
	args[0] = i->flags, args[1] = i->entries;
	if (i->entries > 1000) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	i->entries = (i->entries + 3) & ~3;
	struct mkey *k = make(MKEY, sizeof *k);
	k->lkey = 0x123400, k->rkey = 0x123401;
	return k;
}

int mlx5dv_destroy_mkey(struct mkey *k) { return drop(k, MKEY); }

static int wrong; /* what is wrong with the next mkey that is checked */

void fake_wrong(int kind) { wrong = kind; }

struct mkey_err { uint32_t type, pad; uint64_t actual, expected, offset; };

int _mlx5dv_mkey_check(struct mkey *k, struct mkey_err *e, size_t n)
{
	is(k, MKEY);
	MUST(n == sizeof *e);
	if (wrong < 0)
		return -wrong;
	*e = (struct mkey_err){ wrong, 0, 0x1122334455667788, 7, 512 };
	return 0;
}

struct login { uint32_t credential_id, kek; char credential[48]; uint64_t comp_mask; };

static int logged_in;

int mlx5dv_crypto_login(void *c, const struct login *l)
{
	of_context(c);
	MUST(!l->comp_mask);
	if (logged_in)
		return EEXIST;
	for (int i = 0; i < 48; i++)
		MUST(l->credential[i] == i + 1);
	args[0] = l->credential_id, args[1] = l->kek;
	logged_in = 1;
	return 0;
}

int mlx5dv_crypto_login_query_state(void *c, uint32_t *state)
{
	of_context(c);
	*state = logged_in; /* 0: none, 1: valid */
	return 0;
}

int mlx5dv_crypto_logout(void *c)
{
	of_context(c);
	if (!logged_in)
		return ENOENT;
	logged_in = 0;
	return 0;
}

struct dek_init {
	uint32_t size;
	uint8_t keytag;
	uint32_t purpose;
	void *pd;
	unsigned char opaque[8], key[128];
	uint64_t comp_mask;
	void *login;
};

struct dek { unsigned char opaque[8]; };

struct dek *mlx5dv_dek_create(void *c, const struct dek_init *i)
{
	of_context(c), of_verbs(i->pd);
	int clear = i->comp_mask & 1;
	MUST(!i->purpose && i->comp_mask < 2 && !(clear && i->login) && i->size < 2 && i->keytag < 2);
	if (!i->key[0] || (caps & 32 ? clear : clear ? caps & 16 : !logged_in || !(caps & 16))) {
		errno = EINVAL;
		return NULL;
	}
	args[0] = i->size, args[1] = i->keytag, args[2] = i->key[0] << 8 | i->key[127];
	struct dek *d = make(DEK, sizeof *d);
	memcpy(d->opaque, i->opaque, 8);
	return d;
}

struct dek_attr { uint32_t state; unsigned char opaque[8]; uint64_t comp_mask; };

int mlx5dv_dek_query(struct dek *d, struct dek_attr *a)
{
	is(d, DEK);
	MUST(!a->comp_mask);
	a->state = d->opaque[0] == 0xee; /* 1: in error */
	memcpy(a->opaque, d->opaque, 8);
	return 0;
}

int mlx5dv_dek_destroy(struct dek *d) { return drop(d, DEK); }
