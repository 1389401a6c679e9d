# Crosses into extension modules and back: callbacks, data structures both ways, strings, numbers.
import sys, json, pickle, math, struct, heapq, bisect, csv, io, array, random, datetime, hashlib, zlib, copy
import decimal, unicodedata, itertools, functools, operator, collections
import xml.etree.ElementTree as tree
rounds = int(sys.argv[1])
class Number:
    def __init__(self, n): self.n = n
    def __lt__(self, other): return self.n < other.n
    def __add__(self, other): return Number(self.n + other.n)
    def __reduce__(self): return Number, (self.n,)
    def __float__(self): return float(self.n)
    def __index__(self): return self.n
total, text = 0, ''
for round_ in range(1, rounds + 1):
    numbers = [(i * 7919 + round_) % 1009 for i in range(60)]
    data = {'list': numbers, **{f'k{i}': {'n': i, 't': f'text {i}', 'f': i / 7} for i in range(12)}}
    text = json.dumps(data)
    total += json.loads(text, object_hook=lambda d: d, parse_float=lambda s: float(s))['k3']['n']
    text += json.dumps({'a': [Number(i) for i in numbers[:8]]}, default=lambda o: o.n)
    total += pickle.loads(pickle.dumps(data))['k4']['n'] + pickle.loads(pickle.dumps([Number(i) for i in numbers]))[2].n
    total += sum(math.floor(math.sqrt(n)) + math.gcd(n, 12) for n in numbers) + int(math.hypot(*map(Number, numbers[:5])))
    total += sum(struct.unpack('<3i', struct.pack('<3i', n, Number(n), 3))[1] for n in numbers[:20])
    heap = []
    for n in numbers: heapq.heappush(heap, Number(n))
    total += sum(heapq.heappop(heap).n for _ in range(20))
    ordered = sorted(numbers)
    total += sum(bisect.bisect(ordered, n, key=lambda x: x + 1) for n in numbers[:20])
    out = io.StringIO()
    csv.writer(out).writerows([[n, n * 2, f'a,{n}'] for n in numbers])
    total += sum(len(row) for row in csv.reader(io.StringIO(out.getvalue())))
    total += sum(array.array('i', numbers)) + random.Random(round_).randrange(100)
    day = datetime.datetime(2020, 1, 1) + datetime.timedelta(days=round_)
    text += day.strftime('%Y-%m-%d') + hashlib.md5(text.encode()).hexdigest()
    total += zlib.crc32(zlib.decompress(zlib.compress(text.encode()))) % 1000
    total += int(decimal.Decimal(numbers[3]) / decimal.Decimal(7)) + len(unicodedata.normalize('NFD', 'h\u00e4user ' * 5))
    root = tree.fromstring('<a>' + ''.join(f'<b n="{n}">{n}</b>' for n in numbers[:20]) + '</a>')
    total += sum(int(element.get('n')) for element in root.iter('b'))
print(total, len(text))
