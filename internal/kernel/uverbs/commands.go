package uverbs

// command is one that the kernel has, in all of its forms.
type command struct {
	name           string
	object, method uint16 // of the ioctl; noMethod if it has none
	number         uint32 // of write() and INVOKE_WRITE; noNumber if it has none
}

const (
	noMethod = 0xffff
	noNumber = 1<<32 - 1
	extended = 1 << 31 // of a number. C: IB_USER_VERBS_CMD_FLAG_EXTENDED
)

// Objects. C: enum uverbs_default_objects.
const (
	objectDevice = 0
	objectPD     = 1
	objectCQ     = 3
	objectQP     = 4
	objectSRQ    = 5
	objectAH     = 6
	objectMR     = 7
	objectFlow   = 9
	objectXRCD   = 10
	objectTable  = 11
	objectWQ     = 12
	objectDM     = 14
	objectAsync  = 16
)

// The commands.
var (
	invokeWrite       = command{"invoke_write", objectDevice, 0, noNumber}
	getContext        = command{"get_context", objectDevice, 3, 0}
	queryContext      = command{"query_context", objectDevice, 4, noNumber}
	queryGIDTable     = command{"query_gid_table", objectDevice, 5, noNumber}
	queryGIDEntry     = command{"query_gid_entry", objectDevice, 6, noNumber}
	allocAsyncEvent   = command{"async_event_alloc", objectAsync, 0, noNumber}
	queryDevice       = command{"query_device", 0, noMethod, 1}
	queryDeviceEx     = command{"query_device_ex", 0, noMethod, extended | 1}
	queryPort         = command{"query_port", objectDevice, 2, 2}
	allocPD           = command{"alloc_pd", 0, noMethod, 3}
	deallocPD         = command{"dealloc_pd", objectPD, 0, 4}
	createAH          = command{"create_ah", 0, noMethod, 5}
	destroyAH         = command{"destroy_ah", objectAH, 0, 8}
	regMR             = command{"reg_mr", objectMR, 5, 9}
	deregMR           = command{"dereg_mr", objectMR, 1, 13}
	reregMR           = command{"rereg_mr", 0, noMethod, 11}
	adviseMR          = command{"advise_mr", objectMR, 2, noNumber}
	queryMR           = command{"query_mr", objectMR, 3, noNumber}
	regDMMR           = command{"reg_dm_mr", objectMR, 0, noNumber}
	regDmabufMR       = command{"reg_dmabuf_mr", objectMR, 4, noNumber}
	allocMW           = command{"alloc_mw", 0, noMethod, 14}
	deallocMW         = command{"dealloc_mw", 0, noMethod, 16} // gVisor refuses the method
	allocDM           = command{"alloc_dm", objectDM, 0, noNumber}
	freeDM            = command{"free_dm", objectDM, 1, noNumber}
	createCompChannel = command{"create_comp_channel", 0, noMethod, 17}
	createCQ          = command{"create_cq", objectCQ, 0, 18}
	createCQEx        = command{"create_cq_ex", objectCQ, 0, extended | 18}
	resizeCQ          = command{"resize_cq", 0, noMethod, 19}
	modifyCQ          = command{"modify_cq", 0, noMethod, extended | 57}
	destroyCQ         = command{"destroy_cq", objectCQ, 1, 20}
	createQP          = command{"create_qp", objectQP, 0, 24}
	createQPEx        = command{"create_qp_ex", objectQP, 0, extended | 24}
	openQP            = command{"open_qp", 0, noMethod, 40}
	queryQP           = command{"query_qp", 0, noMethod, 25}
	modifyQP          = command{"modify_qp", 0, noMethod, 26}
	modifyQPEx        = command{"modify_qp_ex", 0, noMethod, extended | 26}
	destroyQP         = command{"destroy_qp", objectQP, 1, 27}
	attachMcast       = command{"attach_mcast", 0, noMethod, 30}
	detachMcast       = command{"detach_mcast", 0, noMethod, 31}
	createSRQ         = command{"create_srq", objectSRQ, 0, 32}
	createXSRQ        = command{"create_xsrq", objectSRQ, 0, 39}
	modifySRQ         = command{"modify_srq", 0, noMethod, 33}
	querySRQ          = command{"query_srq", 0, noMethod, 34}
	destroySRQ        = command{"destroy_srq", objectSRQ, 1, 35}
	openXRCD          = command{"open_xrcd", 0, noMethod, 37}
	closeXRCD         = command{"close_xrcd", objectXRCD, 0, 38}
	createFlow        = command{"create_flow", 0, noMethod, extended | 50}
	destroyFlow       = command{"destroy_flow", objectFlow, 0, extended | 51}
	createWQ          = command{"create_wq", objectWQ, 0, extended | 52}
	modifyWQ          = command{"modify_wq", 0, noMethod, extended | 53}
	destroyWQ         = command{"destroy_wq", objectWQ, 1, extended | 54}
	createTable       = command{"create_rwq_ind_tbl", 0, noMethod, extended | 55}
	destroyTable      = command{"destroy_rwq_ind_tbl", objectTable, 0, extended | 56}
)
