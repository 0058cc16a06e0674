/*
 * A libefa for tests: it makes QPs and CQs by the fake libibverbs, and keeps the rules of the real one. The devices of
 * that library are its own if the knob "efa" is 1.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef OLD
#define OLD 65
#endif

struct ibv_context;
struct ibv_qp;
struct ibv_cq;
struct ibv_ah;
struct ibv_mr;

/* Of the fake libibverbs. */
long fv_get(const char *name);
void fv_set(const char *name, long value);
struct ibv_qp *fv_create_qp_ex(struct ibv_context *c, void *attr);
struct ibv_cq *fv_create_cq_ex(struct ibv_context *c, void *attr);

static long knob(const char *name, long other)
{
	long v = fv_get(name);
	return v == -1 ? other : v;
}

enum { CAP_SGID = 1 << 2, CAP_WRITE = 1 << 3, CAP_UNSOLICITED = 1 << 4 };
static uint32_t caps(void) { return (uint32_t)knob("efa.caps", 0x7f); }
static int ours(void) { return fv_get("efa") == 1; }

static int failing(const char *fn)
{
	const char *names[] = {"efadv_query_ah", "efadv_query_mr", "efadv_create_qp_ex", "efadv_create_cq",
			       "efadv_query_cq", "efadv_query_qp_wqs", "efadv_cq_from_ibv_cq_ex"};
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp(fn, names[i]) && fv_get("efa.fail") == (long)i)
			return (int)knob("efa.errno", EIO);
	return 0;
}
#define FAIL_E do { int e = ours() ? failing(__func__) : EOPNOTSUPP; if (e) return e; } while (0)
#define FAIL_P do { int e = ours() ? failing(__func__) : EOPNOTSUPP; if (e) { errno = e; return NULL; } } while (0)

struct efadv_device_attr {
	uint64_t comp_mask;
	uint32_t max_sq_wr, max_rq_wr;
	uint16_t max_sq_sge, max_rq_sge, inline_buf_size, inline_buf_size_ex;
	uint32_t device_caps, max_rdma_size;
};

#if OLD >= 26
int efadv_query_device(struct ibv_context *c, struct efadv_device_attr *a, uint32_t inlen)
{
	(void)c;
	FAIL_E;
	if (inlen != sizeof *a)
		return EINVAL;
	*a = (struct efadv_device_attr){0, 256, 512, 2, 3, 32, 64, caps(), 1 << 20};
	return 0;
}

struct efadv_ah_attr { uint64_t comp_mask; uint16_t ahn; uint8_t reserved[6]; };

int efadv_query_ah(struct ibv_ah *ah, struct efadv_ah_attr *a, uint32_t inlen)
{
	FAIL_E;
	if (!ah || inlen != sizeof *a || a->comp_mask)
		return EINVAL;
	a->ahn = 0x1234;
	return 0;
}

struct qp_attr { uint64_t comp_mask; uint32_t driver_qp_type; uint16_t flags; uint8_t sl, reserved; uint64_t wr_flags; };
struct init_ex {
	void *qp_context, *send_cq, *recv_cq, *srq;
	uint32_t cap[5], qp_type;
	int sq_sig_all;
	uint32_t comp_mask;
	void *pd;
};

struct ibv_qp *efadv_create_qp_ex(struct ibv_context *c, struct init_ex *init, struct qp_attr *a, uint32_t inlen)
{
	FAIL_P;
	if (inlen != sizeof *a || a->comp_mask || a->reserved || a->driver_qp_type || init->qp_type != 255 || init->srq ||
	    !init->send_cq || !init->recv_cq || !init->sq_sig_all) {
		errno = EINVAL;
		return NULL;
	}
	if ((a->flags & 1 && !(caps() & CAP_UNSOLICITED)) || (a->flags & 2 && !(caps() & CAP_WRITE)) || a->wr_flags) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	fv_set("efa.flags", a->flags);
	fv_set("efa.sl", a->sl);
	return fv_create_qp_ex(c, init);
}
#endif

#if OLD >= 43
struct efadv_cq { uint64_t comp_mask; int (*sgid)(struct efadv_cq *, uint8_t *); _Bool (*unsolicited)(struct efadv_cq *); };
struct cq_attr {
	uint64_t comp_mask, wc_flags, flags;
	struct { uint8_t *buffer; uint64_t length, offset; int32_t fd; uint8_t reserved[4]; } mem;
};

static int sgid(struct efadv_cq *cq, uint8_t *gid)
{
	(void)cq;
	memset(gid, 0x5a, 16);
	return fv_get("efa.no_sgid") == 1 ? -ENOENT : 0;
}
static _Bool unsolicited(struct efadv_cq *cq) { (void)cq; return fv_get("efa.unsolicited") == 1; }
static struct efadv_cq efa_cq;

struct ibv_cq *efadv_create_cq(struct ibv_context *c, void *attr, struct cq_attr *a, uint32_t inlen)
{
	FAIL_P;
	if (inlen != sizeof *a || a->comp_mask || a->flags || a->wc_flags & ~3ull) {
		errno = EINVAL;
		return NULL;
	}
	if (a->wc_flags & 1 && !(caps() & CAP_SGID)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	fv_set("efa.wc_flags", (long)a->wc_flags);
	efa_cq.sgid = a->wc_flags & 1 ? sgid : NULL;
	efa_cq.unsolicited = a->wc_flags & 2 ? unsolicited : NULL;
	return fv_create_cq_ex(c, attr);
}

struct efadv_cq *efadv_cq_from_ibv_cq_ex(struct ibv_cq *cq)
{
	(void)cq;
	FAIL_P;
	return &efa_cq;
}
#endif

#if OLD >= 50
struct mr_attr { uint64_t comp_mask; uint16_t validity, recv, rdma_read, rdma_recv; };

int efadv_query_mr(struct ibv_mr *mr, struct mr_attr *a, uint32_t inlen)
{
	FAIL_E;
	if (!mr || inlen != sizeof *a)
		return EINVAL;
	*a = (struct mr_attr){0, 5, 11, 12, 13};
	return 0;
}
#endif

#if OLD >= 59
struct wq_attr { uint64_t comp_mask; uint8_t *buffer; uint32_t entry_size, num; uint32_t *doorbell; uint32_t max_batch;
	uint16_t caps; uint8_t reserved[2]; };
struct cq_mem { uint64_t comp_mask; uint8_t *buffer; uint32_t entry_size, num; uint32_t *doorbell; };
static uint8_t ring[64];

int efadv_query_qp_wqs(struct ibv_qp *qp, struct wq_attr *sq, struct wq_attr *rq, uint32_t inlen)
{
	FAIL_E;
	if (!qp || inlen != sizeof *sq)
		return EINVAL;
	*sq = (struct wq_attr){0, ring, 64, 256, (uint32_t *)(ring + 32), 16, 1, {0}};
	*rq = (struct wq_attr){0, ring + 8, 16, 512, (uint32_t *)(ring + 36), 0, 0, {0}};
	return 0;
}

int efadv_query_cq(struct ibv_cq *cq, struct cq_mem *a, uint32_t inlen)
{
	FAIL_E;
	if (!cq || inlen != sizeof *a)
		return EINVAL;
	*a = (struct cq_mem){0, ring, 32, 128, NULL};
	return 0;
}
#endif

#if OLD >= 63
struct sq_depth { uint64_t comp_mask; uint32_t flags, send_sge, rdma_sge, inl; };
struct rq_depth { uint64_t comp_mask; uint32_t sge; };

int efadv_get_max_sq_depth(struct ibv_context *c, struct sq_depth *a, uint32_t inlen)
{
	(void)c;
	if (inlen != sizeof *a || a->comp_mask || a->send_sge > 2)
		return -EINVAL;
	return (int)(1000 * a->send_sge + 100 * a->rdma_sge + a->inl + a->flags);
}

int efadv_get_max_rq_depth(struct ibv_context *c, struct rq_depth *a, uint32_t inlen)
{
	(void)c;
	return inlen != sizeof *a || a->comp_mask || a->sge > 3 ? -EINVAL : (int)(512 / a->sge);
}
#endif
