/* Send, receive and completion queues of mlx5 in C, the way internal/mlx5 has them: what a compiler for C makes of the same algorithm. */
#include "bench.h"

#include <endian.h>
#include <immintrin.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define unlikely(x) __builtin_expect(!!(x), 0)

typedef uint8_t *ptr;

static inline void put64(ptr p, int off, uint64_t v) { *(uint64_t *)(p + off) = htobe64(v); }
static inline uint32_t get32(ptr p, int off) { return be32toh(*(uint32_t *)(p + off)); }
static inline uint64_t get64(ptr p, int off) { return be64toh(*(uint64_t *)(p + off)); }

struct lock {
	pthread_spinlock_t spin;
	bool used;
};

static inline void lock(struct lock *l)
{
	if (l->used)
		pthread_spin_lock(&l->spin);
}

static inline void unlock(struct lock *l)
{
	if (l->used)
		pthread_spin_unlock(&l->spin);
}

struct slot {
	uint64_t id;
	uint32_t seq, end;
};

struct hand_qp {
	uint32_t num;
	struct {
		struct lock lock;
		ptr buf, end;
		struct slot *slots;
		uint32_t mask, cur, head, max_wr, blocks, rung, max_inline;
		uint64_t qpn, bell;
		uint32_t *dbrec;
		ptr reg;
		_Alignas(64) _Atomic uint64_t done;
		uint64_t polled;
	} sq;
	struct {
		struct lock lock;
		ptr buf;
		uint64_t *ids;
		uint32_t mask, stride, head;
		int segs;
		uint32_t *dbrec;
		_Alignas(64) _Atomic uint32_t done;
		uint32_t polled, known;
	} rq;
};

struct page {
	struct hand_qp *qp[1 << 12];
};

struct hand_cq {
	struct lock lock;
	ptr buf;
	uint32_t mask, ci;
	uint8_t log, shift;
	struct hand_qp *last;
	uint32_t *dbrec;
	struct page *pages[1 << 12];
};

static void *make(size_t n)
{
	void *p;
	if (posix_memalign(&p, 64, n))
		die("memory");
	return memset(p, 0, n);
}

static void init_lock(struct lock *l, bool used)
{
	l->used = used;
	pthread_spin_init(&l->spin, PTHREAD_PROCESS_PRIVATE);
}

struct hand_cq *hand_open_cq(const struct mlx5dv_cq *v, bool locked)
{
	struct hand_cq *cq = make(sizeof *cq);
	init_lock(&cq->lock, locked);
	cq->buf = (ptr)v->buf + (v->cqe_size - 64);
	cq->mask = v->cqe_cnt - 1;
	cq->log = __builtin_ctz(v->cqe_cnt);
	cq->shift = __builtin_ctz(v->cqe_size);
	cq->dbrec = (uint32_t *)v->dbrec;
	return cq;
}

struct hand_qp *hand_open_qp(struct hand_cq *cq, uint32_t num, const struct mlx5dv_qp *v, uint32_t max_wr, uint32_t max_inline, bool locked)
{
	struct hand_qp *qp = make(sizeof *qp);
	qp->num = num;
	init_lock(&qp->sq.lock, locked);
	qp->sq.buf = v->sq.buf;
	qp->sq.blocks = v->sq.wqe_cnt;
	qp->sq.end = qp->sq.buf + ((size_t)v->sq.wqe_cnt << 6);
	qp->sq.mask = v->sq.wqe_cnt - 1;
	qp->sq.slots = make(v->sq.wqe_cnt * sizeof *qp->sq.slots);
	qp->sq.max_wr = max_wr;
	qp->sq.max_inline = max_inline;
	qp->sq.qpn = (uint64_t)num << 8;
	qp->sq.dbrec = (uint32_t *)v->dbrec + 1;
	qp->sq.reg = v->bf.reg;
	init_lock(&qp->rq.lock, locked);
	qp->rq.buf = v->rq.buf;
	qp->rq.mask = v->rq.wqe_cnt - 1;
	qp->rq.stride = v->rq.stride;
	qp->rq.segs = v->rq.stride / 16;
	qp->rq.ids = make(v->rq.wqe_cnt * 8);
	qp->rq.dbrec = (uint32_t *)v->dbrec;
	struct page **p = &cq->pages[num >> 12 & 0xfff];
	if (!*p)
		*p = make(sizeof **p);
	(*p)->qp[num & 0xfff] = qp;
	return qp;
}

static const uint8_t send_ops[16] = {0x08, 0x09, 0x0a, 0x0b, 0x10, 0x11, 0x12, 0x25, 0x25, 0x01};
static const uint8_t ctrl_flags[8] = {0, 4 << 5, 2 << 2, 2 << 2 | 4 << 5, 2, 2 | 4 << 5, 2 | 2 << 2, 2 | 2 << 2 | 4 << 5};

static inline bool room(struct hand_qp *qp, uint32_t blocks)
{
	uint64_t d = atomic_load_explicit(&qp->sq.done, memory_order_acquire);
	return qp->sq.head - (uint32_t)d < qp->sq.max_wr && qp->sq.cur - (uint32_t)(d >> 32) + blocks <= qp->sq.blocks;
}

static inline void commit(struct hand_qp *qp, uint64_t id, uint64_t bell, uint32_t blocks)
{
	struct slot *s = &qp->sq.slots[qp->sq.cur & qp->sq.mask];
	qp->sq.cur += blocks;
	qp->sq.head++;
	s->id = id;
	s->seq = qp->sq.head;
	s->end = qp->sq.cur;
	qp->sq.bell = bell;
}

static inline ptr next(struct hand_qp *qp, ptr *seg)
{
	ptr p = *seg == qp->sq.end ? qp->sq.buf : *seg;
	*seg = p + 16;
	return p;
}

static bool build(struct hand_qp *qp, const struct hand_wr *wr)
{
	bool rdma = wr->opcode <= IBV_WR_RDMA_WRITE_WITH_IMM || wr->opcode == IBV_WR_RDMA_READ;
	uint32_t ds = 1 + rdma + (wr->data ? (wr->data_len + 4 + 15) / 16 : (uint32_t)wr->num_sge), blocks = (ds + 3) / 4;
	if ((wr->data && wr->data_len > qp->sq.max_inline) || !room(qp, blocks))
		return false;
	ptr ctrl = qp->sq.buf + ((size_t)(qp->sq.cur & qp->sq.mask) << 6), seg = ctrl + 16, p;
	if (rdma) {
		p = next(qp, &seg);
		put64(p, 0, wr->remote);
		put64(p, 8, (uint64_t)wr->rkey << 32);
	}
	if (wr->data) {
		p = next(qp, &seg);
		*(uint32_t *)p = htobe32(wr->data_len | 1u << 31);
		const uint8_t *from = wr->data;
		uint32_t left = wr->data_len, n = left < 12 ? left : 12;
		memcpy(p + 4, from, n);
		for (from += n, left -= n; left; from += n, left -= n) {
			n = left < 16 ? left : 16;
			memcpy(next(qp, &seg), from, n);
		}
	} else {
		for (int i = 0; i < wr->num_sge; i++) {
			p = next(qp, &seg);
			put64(p, 0, (uint64_t)wr->sges[i].length << 32 | wr->sges[i].lkey);
			put64(p, 8, wr->sges[i].addr);
		}
	}
	uint64_t bell = htobe64((uint64_t)(qp->sq.cur & 0xffff) << 40 | (uint64_t)send_ops[wr->opcode & 15] << 32 | qp->sq.qpn | ds);
	*(uint64_t *)ctrl = bell;
	put64(ctrl, 8, (uint64_t)ctrl_flags[wr->flags & 3] << 32 | wr->imm);
	commit(qp, wr->id, bell, blocks);
	return true;
}

int hand_post_send(struct hand_qp *qp, const struct hand_wr *wrs, int n)
{
	int i;
	lock(&qp->sq.lock);
	for (i = 0; i < n; i++) {
		const struct hand_wr *wr = &wrs[i];
		if (wr->num_sge != 1 || wr->data || wr->opcode > IBV_WR_RDMA_WRITE_WITH_IMM) {
			if (!build(qp, wr))
				break;
			continue;
		}
		if (unlikely(!room(qp, 1)))
			break;
		ptr p = qp->sq.buf + ((size_t)(qp->sq.cur & qp->sq.mask) << 6);
		const struct hand_sge *s = wr->sges;
		uint64_t ds = s->length ? 3 : 2;
		uint64_t bell = htobe64((uint64_t)(qp->sq.cur & 0xffff) << 40 | (uint64_t)send_ops[wr->opcode & 15] << 32 | qp->sq.qpn | ds);
		*(uint64_t *)p = bell;
		put64(p, 8, (uint64_t)ctrl_flags[wr->flags & 3] << 32 | wr->imm);
		put64(p, 16, wr->remote);
		put64(p, 24, (uint64_t)wr->rkey << 32);
		if (s->length) {
			put64(p, 32, (uint64_t)s->length << 32 | s->lkey);
			put64(p, 40, s->addr);
		}
		commit(qp, wr->id, bell, 1);
	}
	if (qp->sq.head != qp->sq.rung) {
		qp->sq.rung = qp->sq.head;
		atomic_signal_fence(memory_order_seq_cst);
		*(volatile uint32_t *)qp->sq.dbrec = htobe32(qp->sq.cur & 0xffff);
		_mm_sfence();
		*(volatile uint64_t *)qp->sq.reg = qp->sq.bell;
		_mm_sfence();
	}
	unlock(&qp->sq.lock);
	return i;
}

int hand_post_recv(struct hand_qp *qp, const struct hand_recv *wrs, int n)
{
	lock(&qp->rq.lock);
	uint32_t left = qp->rq.mask + 1 - (qp->rq.head - atomic_load_explicit(&qp->rq.done, memory_order_acquire));
	int i;
	for (i = 0; i < n && (uint32_t)i < left; i++) {
		const struct hand_recv *wr = &wrs[i];
		if (wr->num_sge > qp->rq.segs)
			break;
		uint32_t at = qp->rq.head & qp->rq.mask;
		ptr p = qp->rq.buf + (size_t)at * qp->rq.stride;
		int used = 0;
		for (int k = 0; k < wr->num_sge; k++) {
			if (!wr->sges[k].length)
				continue;
			put64(p, 0, (uint64_t)wr->sges[k].length << 32 | wr->sges[k].lkey);
			put64(p, 8, wr->sges[k].addr);
			p += 16;
			used++;
		}
		if (used < qp->rq.segs) {
			put64(p, 0, 0x100);
			*(uint64_t *)(p + 8) = 0;
		}
		qp->rq.ids[at] = wr->id;
		qp->rq.head++;
	}
	if (i) {
		atomic_signal_fence(memory_order_seq_cst);
		*(volatile uint32_t *)qp->rq.dbrec = htobe32(qp->rq.head & 0xffff);
	}
	unlock(&qp->rq.lock);
	return i;
}

static inline void publish(struct hand_qp *qp)
{
	if (qp->sq.polled != atomic_load_explicit(&qp->sq.done, memory_order_relaxed))
		atomic_store_explicit(&qp->sq.done, qp->sq.polled, memory_order_release);
	if (qp->rq.polled != atomic_load_explicit(&qp->rq.done, memory_order_relaxed))
		atomic_store_explicit(&qp->rq.done, qp->rq.polled, memory_order_release);
}

static uint32_t scatter(ptr list, int segs, uint32_t n, const uint8_t *data)
{
	for (int i = 0; i < segs && n; i++, list += 16) {
		uint32_t size = get32(list, 0), m = n < size ? n : size;
		if (!size && get32(list, 4) == 0x100)
			break;
		memcpy((void *)get64(list, 8), data, m);
		data += m;
		n -= m;
	}
	return n ? IBV_WC_LOC_LEN_ERR : 0;
}

static inline bool take(struct hand_qp *qp, uint32_t counter, uint32_t *at)
{
	if (qp->rq.polled == qp->rq.known) {
		qp->rq.known = *(volatile uint32_t *)&qp->rq.head;
		if (qp->rq.polled == qp->rq.known)
			return false;
	}
	uint32_t i = counter & qp->rq.mask;
	if (i != (qp->rq.polled & qp->rq.mask))
		return false;
	qp->rq.polled++;
	*at = i;
	return true;
}

int hand_poll(struct hand_cq *cq, struct hand_wc *wcs, int max)
{
	lock(&cq->lock);
	int n = 0;
	uint32_t ci = cq->ci;
	struct hand_qp *qp = cq->last;
	for (; n < max; n++) {
		ptr p = cq->buf + ((size_t)(ci & cq->mask) << cq->shift);
		uint64_t tail = be64toh(*(volatile uint64_t *)(p + 56));
		atomic_signal_fence(memory_order_seq_cst);
		uint8_t op = (uint8_t)tail >> 4;
		if (op == 15 || (tail & 1) != (ci >> cq->log & 1))
			break;
		ci++;
		uint32_t num = tail >> 32 & 0xffffff;
		if (!qp || qp->num != num) {
			if (qp)
				publish(qp);
			struct page *page = cq->pages[num >> 12];
			if (!page || !(qp = page->qp[num & 0xfff]))
				die("a completion of no qp");
		}
		struct hand_wc *wc = &wcs[n];
		switch (op) {
		case 0: {
			struct slot *s = &qp->sq.slots[tail >> 16 & qp->sq.mask];
			if (unlikely(s->seq - (uint32_t)qp->sq.polled - 1 >= qp->sq.max_wr))
				die("a completion of no work request");
			*wc = (struct hand_wc){.id = s->id, .qpn = num, .timestamp = get64(p, 48)};
			qp->sq.polled = (uint64_t)s->end << 32 | s->seq;
			switch (tail >> 56) {
			case 0x08:
				wc->opcode = IBV_WC_RDMA_WRITE;
				break;
			case 0x0a:
			case 0x01:
				wc->opcode = IBV_WC_SEND;
				break;
			case 0x10:
				wc->opcode = IBV_WC_RDMA_READ;
				wc->byte_len = get32(p, 44);
				break;
			case 0x09:
				wc->opcode = IBV_WC_RDMA_WRITE;
				wc->flags = IBV_WC_WITH_IMM;
				break;
			case 0x0b:
				wc->opcode = IBV_WC_SEND;
				wc->flags = IBV_WC_WITH_IMM;
				break;
			default:
				die("an opcode that the comparison does not use");
			}
			if (unlikely(tail & 0xc))
				die("payload in a CQE");
			break;
		}
		case 1:
		case 2:
		case 3:
		case 4: {
			uint32_t at;
			if (unlikely(!take(qp, tail >> 16 & 0xffff, &at)))
				die("a completion of no receive");
			*wc = (struct hand_wc){.id = qp->rq.ids[at], .qpn = num, .opcode = IBV_WC_RECV, .byte_len = get32(p, 44), .timestamp = get64(p, 48)};
			uint32_t imm = get32(p, 36), f = get32(p, 24);
			if (op == 3)
				wc->flags = IBV_WC_WITH_IMM, wc->imm = imm;
			else if (op == 1)
				wc->flags = IBV_WC_WITH_IMM, wc->imm = imm, wc->opcode = IBV_WC_RECV_RDMA_WITH_IMM;
			else if (op == 4)
				wc->flags = IBV_WC_WITH_INV, wc->invalidated = imm;
			wc->src_qpn = f & 0xffffff;
			wc->sl = f >> 24 & 0xf;
			if (f >> 28 & 3)
				wc->flags |= IBV_WC_GRH;
			wc->slid = get32(p, 20);
			wc->dlid_path_bits = p[17] & 0x7f;
			wc->pkey_index = imm;
			if (tail & 0xc)
				wc->status = scatter(qp->rq.buf + (size_t)at * qp->rq.stride, qp->rq.segs, wc->byte_len, tail & 4 ? p : p - 64);
			break;
		}
		default:
			die("a completion in error");
		}
	}
	if (qp) {
		publish(qp);
		cq->last = qp;
	}
	if (ci != cq->ci) {
		cq->ci = ci;
		atomic_signal_fence(memory_order_seq_cst);
		*(volatile uint32_t *)cq->dbrec = htobe32(ci & 0xffffff);
	}
	unlock(&cq->lock);
	return n;
}
