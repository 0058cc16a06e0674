/*
 * A librdmacm that treats an ID without a queue pair as librdmacm did before v23. All other functions are those of the
 * installed librdmacm, which this library is linked with. BEFORE is 21 (v15 to v20) or 23 (v21 and v22).
 *
 * What the old releases do is in librdmacm/cma.c of v17.11 and v22.12: rdma_get_cm_event, ucma_process_conn_resp,
 * ucma_modify_qp_rtr, rdma_accept. The installed library itself drops the later events of an ID with a connect_error.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>

/* The beginnings of the structs, as in internal/abi and internal/bind/librdmacm. */
struct id {
	void *verbs, *channel, *context, *qp;
	uint8_t other[376];
	uint32_t qp_type, pad;
	void *private_[3];
	int events_completed, connect_error;
};
_Static_assert(__builtin_offsetof(struct id, connect_error) == 444, "connect_error");

struct event {
	struct id *id, *listen_id;
	uint32_t event;
	int status;
};

enum { CONNECT_RESPONSE = 5, CONNECT_ERROR = 6, ESTABLISHED = 9, UD = 4 };

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int rdma_establish(struct id *id);
int rdma_get_cm_event(void *channel, struct event **event);
int rdma_accept(struct id *id, void *param);

int rdma_get_cm_event(void *channel, struct event **event)
{
	int ret = REAL(rdma_get_cm_event)(channel, event);
	struct event *e = ret ? 0 : *event;

	if (!e || e->event != CONNECT_RESPONSE || e->id->qp)
		return ret;
#if BEFORE > 21 /* nothing to do for the queue pair, so the peer is told that it is ready */
	e->status = REAL(rdma_establish)(e->id);
#else /* no queue pair: EINVAL */
	e->status = -1;
#endif
	e->id->connect_error = e->status != 0;
	e->event = e->status ? CONNECT_ERROR : ESTABLISHED;
	return 0;
}

#if BEFORE <= 21
int rdma_accept(struct id *id, void *param)
{
	if (!id->qp && id->qp_type != UD) {
		errno = EINVAL;
		return -1;
	}
	return REAL(rdma_accept)(id, param);
}
#endif
