package testutil

// RPingRace is on the stderr of a stock rping that ended with an error after all its work was done: its main thread
// closed the event channel that its other thread reads (rdma-core v44.0:librdmacm/examples/rping.c:671).
const RPingRace = "DISCONNECT EVENT...\nrdma_get_cm_event: Bad file descriptor\n"
