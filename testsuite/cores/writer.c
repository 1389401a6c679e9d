// Core files of this process as Linux writes them on AArch64 (`fs/binfmt_elf.c`), at random moments: qemu's own have
// no thread pointer. All other threads are stopped by a signal; each says what its context is.
// usage: writer_begin(folder, how many, threads); each thread: writer_add(), and on while writer_goes_on()
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <pcce.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { THREADS = 8, MAPPINGS = 200, ROOM = 1 << 16, STOP = SIGUSR2 };
static struct thread {
  int tid;
  unsigned long registers[34], pointer;
  char token[4096];
} threads[THREADS];
static _Atomic int places, count, stopped, round_number, finished;
static const char *folder;
static int cores, all;

static void stop(int signal, siginfo_t *info, void *given) {
  (void)signal;
  (void)info;
  const mcontext_t *context = &((ucontext_t *)given)->uc_mcontext;
  struct thread *own = threads;
  while (own->tid != (int)syscall(SYS_gettid)) own++;
  memcpy(own->registers, context->regs, sizeof context->regs);
  own->registers[31] = context->sp;
  own->registers[32] = context->pc;
  own->registers[33] = context->pstate;
  __asm__("mrs %0, tpidr_el0" : "=r"(own->pointer));
  pcce_token_at(own->token, sizeof own->token, (void *)context->pc, (void *)context->sp);
  int now = atomic_load(&round_number);
  atomic_fetch_add(&stopped, 1);
  while (atomic_load(&round_number) == now) usleep(100);
}

static char notes[ROOM];
static size_t notes_length;

static void note(const char *name, unsigned kind, const void *content, size_t size) {
  Elf64_Nhdr header = {(unsigned)strlen(name) + 1, (unsigned)size, kind};
  char *at = notes + notes_length;
  memcpy(at, &header, sizeof header);
  memset(at + sizeof header, 0, 8);
  memcpy(at + sizeof header, name, header.n_namesz);
  at += sizeof header + ((header.n_namesz + 3) & ~3u);
  memcpy(at, content, size);
  notes_length = (size_t)(at - notes) + ((size + 3) & ~(size_t)3);
}

struct mapping {
  unsigned long start, end, offset;
  char flags[5], name[256];
};

static void write_core(const char *path) {
  static struct mapping mappings[MAPPINGS];
  int n = 0;
  FILE *maps = fopen("/proc/self/maps", "r");
  for (char line[512]; n < MAPPINGS && fgets(line, sizeof line, maps); n++) {
    struct mapping *m = &mappings[n];
    m->name[0] = 0;
    sscanf(line, "%lx-%lx %4s %lx %*s %*s %255s", &m->start, &m->end, m->flags, &m->offset, m->name);
  }
  fclose(maps);
  notes_length = 0;
  for (int i = 0; i < count; i++) {
    struct elf_prstatus status;
    memset(&status, 0, sizeof status);
    status.pr_info.si_signo = status.pr_cursig = SIGABRT;
    status.pr_pid = threads[i].tid;
    memcpy(status.pr_reg, threads[i].registers, sizeof threads[i].registers);
    note("CORE", NT_PRSTATUS, &status, sizeof status);
    if (i == 0) {
      struct elf_prpsinfo process;
      siginfo_t signal;
      static char content[ROOM / 2];
      memset(&process, 0, sizeof process);
      process.pr_pid = getpid();
      note("CORE", NT_PRPSINFO, &process, sizeof process);
      memset(&signal, 0, sizeof signal);
      signal.si_signo = SIGABRT;
      note("CORE", NT_SIGINFO, &signal, sizeof signal);
      int file = open("/proc/self/auxv", O_RDONLY);
      note("CORE", NT_AUXV, content, (size_t)read(file, content, 1024));
      close(file);
      unsigned long *words = (unsigned long *)content, files = 0;
      for (int m = 0; m < n; m++) {
        if (mappings[m].name[0] != '/') continue;
        unsigned long entry[] = {mappings[m].start, mappings[m].end, mappings[m].offset / 4096};
        memcpy(words + 2 + 3 * files, entry, sizeof entry);
        files++;
      }
      words[0] = files;
      words[1] = 4096;
      char *at = (char *)(words + 2 + 3 * files);
      for (int m = 0; m < n; m++) {
        if (mappings[m].name[0] == '/') at = stpcpy(at, mappings[m].name) + 1;
      }
      note("CORE", NT_FILE, content, (size_t)(at - content));
    }
    note("LINUX", NT_ARM_TLS, &threads[i].pointer, 8);
    note("LINUX", NT_ARM_PAC_MASK, (unsigned long[]){0x7fUL << 48, 0x7fUL << 48}, 16);
  }
  int file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
  Elf64_Ehdr header = {.e_type = ET_CORE, .e_machine = EM_AARCH64, .e_version = EV_CURRENT, .e_phoff = sizeof header};
  memcpy(header.e_ident, (unsigned char[]){0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT}, 7);
  header.e_ehsize = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = (unsigned short)(n + 1);
  static Elf64_Phdr programs[MAPPINGS + 1];
  size_t at = sizeof header + header.e_phnum * sizeof(Elf64_Phdr);
  programs[0] = (Elf64_Phdr){.p_type = PT_NOTE, .p_offset = at, .p_filesz = notes_length};
  at = (at + notes_length + 4095) & ~(size_t)4095;
  for (int m = 0; m < n; m++) {
    const struct mapping *from = &mappings[m];
    Elf64_Phdr *to = &programs[m + 1];
    unsigned long start = from->start;
    // Of a stack, only what is in use.
    for (int i = 0; i < count; i++) {
      unsigned long sp = threads[i].registers[31];
      if (start <= sp && sp < from->end) start = sp & ~4095UL;
    }
    int is_kept = from->flags[0] == 'r' && from->flags[1] == 'w';
    *to = (Elf64_Phdr){.p_type = PT_LOAD, .p_vaddr = start, .p_memsz = from->end - start, .p_offset = at};
    to->p_flags = (from->flags[0] == 'r') * PF_R | (from->flags[1] == 'w') * PF_W | (from->flags[2] == 'x') * PF_X;
    to->p_filesz = is_kept ? to->p_memsz : 0;
    at += to->p_filesz;
  }
  write(file, &header, sizeof header);
  write(file, programs, header.e_phnum * sizeof *programs);
  write(file, notes, notes_length);
  for (int m = 1; m <= n; m++) {
    const Elf64_Phdr *from = &programs[m];
    pwrite(file, (void *)from->p_vaddr, from->p_filesz, (off_t)from->p_offset);
  }
  close(file);
}

static void *writer(void *argument) {
  unsigned random = 1;
  while (atomic_load(&count) < all) usleep(100);
  for (int core = 0; core < cores; core++) {
    random = random * 1103515245 + 12345;
    usleep(random / 65536 % 9000);
    atomic_store(&stopped, 0);
    for (int i = 0; i < count; i++) syscall(SYS_tgkill, getpid(), threads[i].tid, STOP);
    while (atomic_load(&stopped) < count) usleep(100);
    char path[512];
    snprintf(path, sizeof path, "%s/core.%d", folder, core);
    write_core(path);
    for (int i = 0; i < count; i++) printf("%d %d %s\n", core, threads[i].tid, threads[i].token);
    atomic_fetch_add(&round_number, 1);
  }
  fflush(stdout);
  atomic_store(&finished, 1);
  return argument;
}

int writer_goes_on(void) { return !atomic_load(&finished); }

void writer_add(void) {
  threads[atomic_fetch_add(&places, 1)].tid = (int)syscall(SYS_gettid);
  atomic_fetch_add(&count, 1);
}

void writer_begin(const char *to, int how_many, int of_threads) {
  // The runtime is not told: the handler is no part of the contexts.
  struct {
    void (*handler)(int, siginfo_t *, void *);
    unsigned long flags;
    void *restorer;
    unsigned long mask;
  } action = {stop, SA_SIGINFO | SA_RESTART, 0, 0};
  syscall(SYS_rt_sigaction, STOP, &action, NULL, 8);
  folder = to;
  cores = how_many;
  all = of_threads;
  pthread_t thread;
  pthread_create(&thread, NULL, writer, NULL);
  pthread_detach(thread);
}
