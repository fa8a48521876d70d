// What witness_test.py stands in for, one part a build: a CUPTI and a driver of one function, the
// two libraries of Ebbtide, and a program whose calls are known.
#include <dlfcn.h>
#include <stdlib.h>

#define FAKE extern "C" __attribute__((visibility("default"), noinline))

#if defined(FAKE_CUPTI)
#include <cupti.h>
#include <string.h>

#include <initializer_list>

static CUpti_CallbackFunc g_callback;

CUptiResult CUPTIAPI cuptiSubscribe(CUpti_SubscriberHandle*, CUpti_CallbackFunc callback, void*) {
  g_callback = callback;
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiEnableDomain(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain) {
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t id,
                                          const char** name) {
  *name = domain == CUPTI_CB_DOMAIN_DRIVER_API ? "cuMemAlloc_v2" : "cudaMalloc_v3020";
  return id == 5 ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}
// One call of function 5 of a domain, as the driver reports it: its entry and its end.
FAKE void FakeCall(int domain) {
  if (!g_callback) return;
  CUpti_CallbackData data;
  memset(&data, 0, sizeof data);
  for (CUpti_ApiCallbackSite site : {CUPTI_API_ENTER, CUPTI_API_EXIT}) {
    data.callbackSite = site;
    g_callback(nullptr, static_cast<CUpti_CallbackDomain>(domain), 5, &data);
  }
}

#else
FAKE int cuInit(unsigned flags);
FAKE int cuMemAlloc_v2(int depth);
FAKE int CoreCalls();
FAKE int HookCalls();
FAKE int HookHasCoreCall();
#endif

#if defined(FAKE_DRIVER)
static void (*g_call)(int);

int cuInit(unsigned) {
  void* witness = dlopen(getenv("CUDA_INJECTION64_PATH"), RTLD_NOW);
  if (!witness) return 1;
  reinterpret_cast<int (*)()>(dlsym(witness, "InitializeInjection"))();
  void* cupti = dlopen(getenv("WITNESS_CUPTI"), RTLD_NOW);
  g_call = reinterpret_cast<void (*)(int)>(dlsym(cupti, "FakeCall"));
  return 0;
}

// A frame of some size, so that there is something on the stack between caller and callback.
static __attribute__((noinline)) int Deeper(int depth) {
  volatile char room[256];
  room[depth] = 1;
  if (g_call) g_call(1);
  if (g_call) g_call(2);
  return room[depth];
}
int cuMemAlloc_v2(int depth) {
  volatile int done = Deeper(depth);
  return done;
}

#elif defined(FAKE_CORE)
int CoreCalls() {
  volatile int done = cuMemAlloc_v2(1);
  return done;
}

#elif defined(FAKE_FRONT)
int HookCalls() {
  volatile int done = cuMemAlloc_v2(2);
  return done;
}
int HookHasCoreCall() {
  volatile int done = CoreCalls();
  return done;
}

#elif defined(FAKE_PROGRAM)
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static void AtExit() {
  HookCalls();
  HookCalls();
}

static void* OfThread(void*) {
  HookCalls();
  HookHasCoreCall();
  return nullptr;
}

// The program's: 3 + 5 + 1, and 2 more while it exits. Ebbtide's own: 7 + 1. A forked child's
// are nobody's.
int main() {
  atexit(&AtExit);
  if (cuInit(0) != 0) return 1;
  for (int i = 0; i < 3; ++i) cuMemAlloc_v2(i);
  for (int i = 0; i < 5; ++i) HookCalls();
  for (int i = 0; i < 7; ++i) HookHasCoreCall();
  pthread_t thread;
  if (pthread_create(&thread, nullptr, &OfThread, nullptr) != 0) return 1;
  pthread_join(thread, nullptr);
  const pid_t child = fork();
  if (child == 0) {
    HookCalls();
    exit(0);
  }
  waitpid(child, nullptr, 0);
  return 0;
}
#endif
